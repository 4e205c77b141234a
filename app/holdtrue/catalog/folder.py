"""reads the files of a catalog: holdtrue.yaml and the folder beside it"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from holdtrue.catalog import nodes
from holdtrue.catalog.building import CONFIG, Examination, examine
from holdtrue.catalog.nodes import compose
from holdtrue.errors import CatalogRefused
from holdtrue.model import Catalog, Place, Problem

DEFAULT_FOLDER: Final = "invariants"
_SUFFIXES: Final = (".yaml", ".yml", ".sql")
_FILES_LIMIT: Final = 20_000


def load_catalog(config_path: Path, *, environ: Mapping[str, str], allow_empty: bool = False) -> Catalog:
    """Read and build in one step.

    Raises:
        CatalogRefused: with every problem, of files that cannot be read and of those that can.
    """
    return examine_files(config_path, environ=environ, allow_empty=allow_empty).accepted()


def examine_files(config_path: Path, *, environ: Mapping[str, str], allow_empty: bool = False) -> Examination:
    """Read and examine in one step; raises nothing."""
    texts, unread = _gather(Path(config_path), allow_empty)
    return examine(texts, environ=environ, allow_empty=allow_empty, unread=unread)


def read_texts(config_path: Path, *, allow_empty: bool = False) -> dict[str, str]:
    """The texts of a catalog by relative path; holdtrue.yaml comes under that name, whatever the file is called.

    Names that begin with a dot (``..data`` of a mounted ConfigMap) and what editors leave behind are no part of it. Links to
    files are followed. Bytes that are no UTF-8 stay visible as surrogates, so that their place can be told.

    Raises:
        CatalogRefused: something that should be read cannot be.
    """
    texts, unread = _gather(Path(config_path), allow_empty)
    if unread:
        raise CatalogRefused(sorted(unread, key=lambda one: one.place))
    return texts


def _gather(config_path: Path, allow_empty: bool) -> tuple[dict[str, str], list[Problem]]:
    """What could be read, and what could not."""
    problems: list[Problem] = []
    texts: dict[str, str] = {}
    text = _read(config_path, CONFIG, problems)
    if text is not None:
        texts[CONFIG] = text
    name = folder_of(texts.get(CONFIG, ""))
    folder = config_path.parent / name
    key = Path(os.path.normpath(name)).as_posix()
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        if not allow_empty and text is not None:
            problems.append(Problem(Place(key, 1, 1), "there is no folder here that can be read, for the invariants"))
        return texts, problems
    root = Path(os.path.realpath(folder))
    for path in _files(folder, key, problems):
        relative = f"{key}/{path.relative_to(folder).as_posix()}"
        if path.suffix.lower() == ".sql" and not Path(os.path.realpath(path)).is_relative_to(root):
            continue  # outside, links followed: an invariant that names it is told so
        content = _read(path, relative, problems)
        if content is not None:
            texts[relative] = content
    return texts, problems


def folder_of(text: str) -> str:
    """The folder of the invariants that a ``holdtrue.yaml`` names, whatever else is wrong with it."""
    # Read on its own: the folder must be known before anything is validated.
    root = compose(CONFIG, text, [])
    if isinstance(root, nodes.Mapping) and "invariants_folder" in root.entries:
        value = root.entries["invariants_folder"][1]
        if isinstance(value, nodes.Scalar) and value.text.strip() and "\x00" not in value.text:
            return value.text
    return DEFAULT_FOLDER


def is_catalog_file(name: str) -> bool:
    """Whether a file of this name is read: not what begins with a dot, nor what editors leave behind."""
    return not name.startswith((".", "#")) and name.lower().endswith(_SUFFIXES)


def _files(folder: Path, key: str, problems: list[Problem]) -> Iterator[Path]:
    def unreadable(problem: OSError) -> None:
        problems.append(Problem(Place(key, 1, 1), f"a folder cannot be read: {problem.strerror}"))

    count = 0
    for place, folders, files in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        for one in folders:
            if (Path(place) / one).is_symlink():
                relative = f"{key}/{(Path(place) / one).relative_to(folder).as_posix()}"
                problems.append(Problem(Place(relative, 1, 1), "a link to a folder is not followed; link its files"))
        for one in sorted(files):
            if not is_catalog_file(one):
                continue
            count += 1
            if count > _FILES_LIMIT:
                problems.append(Problem(Place(key, 1, 1), f"the folder has more than {_FILES_LIMIT} files"))
                return
            yield Path(place) / one


def _read(path: Path, name: str, problems: list[Problem]) -> str | None:
    try:
        if not path.is_file():
            missing = not path.exists()
            message = "there is no such file" if missing else "this is no regular file"
            if name == CONFIG and missing:
                message += "; `holdtrue init` writes one"
            problems.append(Problem(Place(name, 1, 1), message))
            return None
        if path.stat().st_size > nodes.TEXT_LIMIT:
            problems.append(Problem(Place(name, 1, 1), f"the file is longer than {nodes.TEXT_LIMIT >> 20} MiB"))
            return None
        content = path.read_bytes()
    except OSError as problem:
        problems.append(Problem(Place(name, 1, 1), f"the file cannot be read: {problem.strerror}"))
        return None
    return content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
