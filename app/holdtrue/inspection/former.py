"""reads the former texts of a catalog: from git, from another folder or from a file (diff)"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from holdtrue.catalog import CONFIG, TEXT_LIMIT, examine, folder_of, is_catalog_file, read_texts
from holdtrue.errors import Refused
from holdtrue.model import Catalog, Problem

_SECONDS: Final = 30.0
_FILES_LIMIT: Final = 20_000
_SQL_FILE: Final = re.compile(r"\bsql_file:\s*[\"']?([^\s\"'#,}]+)")
_LINK: Final = "120000"
_SAID_LIMIT: Final = 200
_HOPS_LIMIT: Final = 40
_OF_ANOTHER: Final = frozenset(
    {
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_COMMON_DIR",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_NAMESPACE",
        "GIT_PREFIX",
    }
)


@dataclass(frozen=True, slots=True)
class Former:
    """A catalog as it was: how it is called (``HEAD (3f2a1c9)``), and what must be said of it."""

    label: str
    catalog: Catalog
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Texts:
    """The texts of the invariants by the names that the catalog would give them; ``config`` is None if it was not kept."""

    label: str
    texts: Mapping[str, str]
    config: str | None
    note: str = ""


def read_former(config_path: Path, against: str | None, *, environ: Mapping[str, str]) -> Former:
    """The catalog of ``against``: a revision of git, a folder with a holdtrue.yaml, or a file of invariants; HEAD without.

    The former invariants are asked of the databases of today's ``holdtrue.yaml``; where they do not fit it any more, of
    those of their own.

    Raises:
        Refused: there is no such revision or path, it is in no repository, or its texts are refused.
    """
    current = _config_text(config_path)
    found = _texts_of(config_path, against, current)
    tried: list[tuple[str, str]] = [(current, "")]
    if found.config is not None and found.config != current:
        tried.append((found.config, f"the databases are those of holdtrue.yaml at {found.label}"))
    problems: tuple[Problem, ...] = ()
    for config, note in tried:
        examined = examine({**found.texts, CONFIG: config}, environ=environ, allow_empty=True)
        if examined.catalog is not None:
            return Former(found.label, examined.catalog, tuple(one for one in (note, found.note) if one))
        problems = problems or examined.refusals
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    raise Refused(
        f"the texts of {found.label} are refused: {problems[0]}{more}",
        remedy="--against another revision, a folder with a holdtrue.yaml, or a file of invariants",
    )


def _texts_of(config_path: Path, against: str | None, current: str) -> _Texts:
    if against is not None and not against.strip():
        # An unset variable of a pipeline would be this folder, which is always the same as itself.
        raise Refused(
            "--against names nothing", remedy="a revision, a folder with a holdtrue.yaml, or a file of invariants"
        )
    path = Path(against) if against is not None else None
    if path is None or not path.exists():
        return _from_git(config_path, against or "HEAD", current)
    if path.is_dir():
        path = path / "holdtrue.yaml"
        if not path.exists():
            raise Refused(
                f"the folder {against} has no holdtrue.yaml",
                remedy="--against a revision, another folder, or a file of invariants",
            )
    if path.name in (CONFIG, config_path.name):
        texts = read_texts(path, allow_empty=True)
        return _Texts(str(against), {name: text for name, text in texts.items() if name != CONFIG}, texts.get(CONFIG))
    if not is_catalog_file(path.name) or path.suffix.lower() == ".sql":
        raise Refused(
            f"{against} is no former text",
            remedy="name a revision, a folder with a holdtrue.yaml, or a .yaml of invariants",
        )
    folder = _folder(current)
    text = _read(path)
    texts = {posixpath.join(folder, path.name): text}
    for name in _SQL_FILE.findall(text):
        beside = path.parent / name
        if beside.is_file() and Path(os.path.realpath(beside)).is_relative_to(os.path.realpath(path.parent)):
            texts[posixpath.normpath(posixpath.join(folder, name))] = _read(beside)
    return _Texts(str(against), texts, None)


def _config_text(config_path: Path) -> str:
    return read_texts(config_path, allow_empty=True)[CONFIG]


def _folder(config: str) -> str:
    return PurePosixPath(os.path.normpath(folder_of(config))).as_posix()


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > TEXT_LIMIT:
            raise Refused(f"{path} is longer than {TEXT_LIMIT >> 20} MiB")
        return _text(path.read_bytes())
    except OSError as problem:
        raise Refused(f"{path} cannot be read: {problem.strerror}") from problem


def _text(content: bytes) -> str:
    return content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def _from_git(config_path: Path, revision: str, current: str) -> _Texts:
    """The texts as they were committed: those of the folder of the invariants, wherever its repository is."""
    home = config_path.parent
    folder = home / folder_of(current)
    git = _Git(folder if folder.is_dir() else home)
    commit = git.commit(revision)
    root = Path(git.line("rev-parse", "--show-toplevel"))
    listing, unread = git.files(commit)
    label = f"{revision} ({commit[:9]})" if not commit.startswith(revision) else commit[:9]
    config_name = _below(root, home.resolve() / config_path.name)
    config = git.text(listing[config_name]) if config_name is not None and config_name in listing else None
    # Where the catalog was then: a folder may have been moved since.
    key = _folder(config if config is not None else current)
    inside = _below(root, Path(os.path.realpath(home / key)))
    if inside is None:
        raise Refused(
            f"the folder of the invariants at {label} lies outside of its repository",
            remedy="--against a folder or file",
        )
    prefix = "" if inside == "." else f"{inside}/"
    wanted = {
        f"{key}/{name.removeprefix(prefix)}": blob
        for name, blob in listing.items()
        if name.startswith(prefix) and _counts(name.removeprefix(prefix))
    }
    if not wanted:
        raise Refused(
            f"{label} has no invariants in {inside}",
            remedy="nothing was committed there yet: commit first, or give --against a revision, folder or file",
        )
    if len(wanted) > _FILES_LIMIT:
        raise Refused(f"the folder at {label} has more than {_FILES_LIMIT} files")
    left = [name for name in unread if name.startswith(prefix) and _is_open(name.removeprefix(prefix))]
    return _Texts(label, git.texts(wanted), config, _of_unread(left, label))


def _of_unread(names: Sequence[str], label: str) -> str:
    if not names:
        return ""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return (
        f"{names[0]}{more} is a submodule at {label}, or a link that leads out of it: what lies there was not read,"
        " so that its invariants look new"
    )


def _below(root: Path, path: Path) -> str | None:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else None


def _counts(relative: str) -> bool:
    return _is_open(posixpath.dirname(relative)) and is_catalog_file(posixpath.basename(relative))


def _is_open(relative: str) -> bool:
    return not any(part.startswith(".") for part in relative.split("/"))


class _Git:
    """Asks git about the repository of one folder; it is told to run nothing else, to fetch nothing and to ask nobody."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # The repository is the folder's own, whatever hook of whatever repository we are run by.
        self._environ = {
            **{name: value for name, value in os.environ.items() if name not in _OF_ANOTHER},
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_PAGER": "cat",
            "LC_ALL": "C",
        }

    def line(self, *arguments: str) -> str:
        """The one line of an answer."""
        return os.fsdecode(self._run(arguments)).rstrip("\n")

    def commit(self, revision: str) -> str:
        """The commit that a revision names.

        Raises:
            Refused: this is no repository, or there is no such revision.
        """
        self._run(("rev-parse", "--is-inside-work-tree"))
        if revision.startswith("-") or "\0" in revision:
            raise Refused(f"{revision!r} is no revision")
        try:
            return self.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except Refused as refusal:
            raise Refused(
                f"there is no revision and no path {revision!r}",
                remedy="commit first, or give --against a revision, a folder with a holdtrue.yaml, or a file of invariants",
            ) from refusal

    def files(self, commit: str) -> tuple[dict[str, str], tuple[str, ...]]:
        """Every file of a commit with the name of its content, links to files led to those; and what cannot be read."""
        links: dict[str, str] = {}
        found: dict[str, str] = {}
        unread: list[str] = []
        for entry in os.fsdecode(self._run(("ls-tree", "-r", "-z", "--full-tree", commit))).split("\0"):
            about, tab, name = entry.partition("\t")
            if not tab:
                continue
            mode, kind, blob = about.split()
            if kind == "commit":
                unread.append(name)
            else:
                (links if mode == _LINK else found)[name] = blob
        led: dict[str, str] = {}
        for name in links:
            if is_catalog_file(posixpath.basename(name)):
                target = self._follow(name, links)
                if target in found:
                    led[name] = found[target]
                else:
                    unread.append(name)
        return {**found, **led}, tuple(unread)

    def _follow(self, name: str, links: Mapping[str, str]) -> str:
        for _ in range(_HOPS_LIMIT):
            if name not in links:
                break
            name = posixpath.normpath(posixpath.join(posixpath.dirname(name), self.text(links[name])))
        return name

    def text(self, blob: str) -> str:
        """One content."""
        return self.texts({"": blob})[""]

    def texts(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """Contents, byte for byte as they were committed: neither filters nor drivers of the repository are run."""
        asked = "".join(f"{blob}\n" for blob in wanted.values()).encode()
        answer = self._run(("cat-file", "--batch"), asked)
        texts: dict[str, str] = {}
        place = 0
        for name in wanted:
            end = answer.find(b"\n", place)
            header = answer[place:end].split()
            if end < 0 or len(header) != 3 or not header[2].isdigit():
                raise Refused(
                    "git does not have the content of every file",
                    remedy="fetch it: this is a partial clone, or a damaged one",
                )
            size = int(header[2])
            if size > TEXT_LIMIT:
                raise Refused(f"{name} was longer than {TEXT_LIMIT >> 20} MiB")
            texts[name] = _text(answer[end + 1 : end + 1 + size])
            place = end + 1 + size + 1
        return texts

    def _run(self, arguments: tuple[str, ...], given: bytes = b"") -> bytes:
        elsewhere = "--against a folder with a holdtrue.yaml, or a file of invariants"
        try:
            done = subprocess.run(  # noqa: S603  the program is fixed, its arguments are no options
                ["git", "-C", str(self._folder), *arguments],  # noqa: S607  the caller's own git
                input=given,
                capture_output=True,
                env=self._environ,
                timeout=_SECONDS,
                check=False,
            )
        except FileNotFoundError as problem:
            raise Refused("git is not installed", remedy=elsewhere) from problem
        except (OSError, ValueError) as problem:
            raise Refused("git cannot be started", remedy=elsewhere) from problem
        except subprocess.TimeoutExpired as problem:
            raise Refused(f"git did not answer within {_SECONDS:g} s", remedy=elsewhere) from problem
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            first = said[0][:_SAID_LIMIT] if said else "no reason given"
            raise Refused(f"git cannot read the folder {self._folder}: {first}", remedy=elsewhere)
        return done.stdout
