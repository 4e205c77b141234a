"""a whole Catalog out of texts: pure, and with every problem at once"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from holdtrue.catalog import nodes
from holdtrue.catalog.canary import check_canary, check_kept, the_canary
from holdtrue.catalog.configuration import service_config
from holdtrue.catalog.heartbeats import check_heartbeats
from holdtrue.catalog.invariants import Surroundings, read_invariant
from holdtrue.catalog.keys import CONFIG_FILE, INVARIANTS_FILE
from holdtrue.catalog.nodes import Node, compose
from holdtrue.catalog.routes import check_routes, check_told
from holdtrue.catalog.shapes import Fields, nearest, what
from holdtrue.errors import CatalogRefused
from holdtrue.model import Catalog, Invariant, Place, Problem, ServiceConfig

CONFIG: Final = "holdtrue.yaml"


@dataclass(frozen=True, slots=True)
class Examination:
    """What texts came to: the catalog, or None if it is refused, and every problem, warnings too, in their places' order."""

    catalog: Catalog | None
    problems: tuple[Problem, ...]

    @property
    def refusals(self) -> tuple[Problem, ...]:
        """The problems that refuse the catalog."""
        return tuple(one for one in self.problems if one.fatal)

    def accepted(self) -> Catalog:
        """The catalog.

        Raises:
            CatalogRefused: it is refused.
        """
        if self.catalog is None:
            raise CatalogRefused(self.refusals)
        return self.catalog


def build_catalog(texts: Mapping[str, str], *, environ: Mapping[str, str], allow_empty: bool = False) -> Catalog:
    """The catalog that these texts say: ``holdtrue.yaml``, and the files of the folder by relative path.

    Raises:
        CatalogRefused: with every problem, each at its place; nothing else, whatever the texts hold.
    """
    return examine(texts, environ=environ, allow_empty=allow_empty).accepted()


def examine(
    texts: Mapping[str, str], *, environ: Mapping[str, str], allow_empty: bool = False, unread: Sequence[Problem] = ()
) -> Examination:
    """The same, for those who also want the warnings of a refused catalog; raises nothing.

    ``unread`` are the problems of files that could not be read; they are told together with those of the others.
    """
    problems = list(unread)
    fields_of, config = _read_config(texts, environ, problems)
    refused = any(one.fatal for one in problems)
    doubted = config is None or any(one.fatal and one.place.file == CONFIG for one in problems)
    around = Surroundings(
        texts=texts,
        lines={name: tuple(text.split("\n")) for name, text in texts.items()},
        databases=None if doubted or config is None else {one.name: one for one in config.databases},
        allow_empty=allow_empty,
    )
    invariants: list[Invariant] = []
    names: dict[str, list[Place]] = {}
    for file in sorted(texts):
        if file == CONFIG or not file.lower().endswith((".yaml", ".yml")):
            continue
        before = len(problems)
        fields = _read_file(file, texts[file], problems)
        refused = refused or any(one.fatal for one in problems[before:])
        if fields is None:
            continue
        defaults = fields.get("defaults")
        for own in fields.get("invariants", ()):
            if "name" in own:
                names.setdefault(own.get("name"), []).append(own.written["name"][1].place)
            kept = tuple(check_kept(own, defaults))
            problems.extend(kept)
            refused = refused or bool(kept)
            invariant = read_invariant(own, defaults, around, problems, refused=refused)
            if invariant is None:
                refused = True
            else:
                invariants.append(invariant)
    problems.extend(_duplicates(names))
    problems.extend(_renamed(invariants, names))
    if not invariants and not allow_empty and not refused:
        problems.append(
            Problem(Place(CONFIG, 1, 1), "there is no invariant at all; --allow-empty says that this is meant")
        )
    if fields_of is not None and config is not None and not any(one.fatal for one in problems):
        problems.extend(check_told(fields_of, config, invariants))
    found = _in_order(problems)
    if any(one.fatal for one in found):
        return Examination(None, found)
    ordered = tuple(sorted(texts.items()))
    config = config or ServiceConfig()
    canary, canary_database = the_canary(config, environ)
    catalog = Catalog(
        invariants=tuple(sorted(invariants, key=lambda one: one.name)),
        config=config,
        texts=ordered,
        content_hash=content_hash(ordered),
        warnings=found,
        canary=canary,
        canary_database=canary_database,
    )
    return Examination(catalog, found)


def read_config(text: str, *, environ: Mapping[str, str]) -> ServiceConfig:
    """What ``holdtrue.yaml`` alone says: for commands that need the store whatever the invariants are.

    Raises:
        CatalogRefused: with every problem of that file.
    """
    problems: list[Problem] = []
    _, config = _read_config({CONFIG: text}, environ, problems)
    if config is None or any(one.fatal for one in problems):
        raise CatalogRefused([one for one in _in_order(problems) if one.fatal])
    return config


def content_hash(texts: Iterable[tuple[str, str]]) -> str:
    """The hash of a catalog's texts, with their names."""
    digest = hashlib.sha256()
    for name, text in texts:
        for part in (name, text):
            content = part.encode("utf-8", "surrogatepass")
            digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def _read_config(
    texts: Mapping[str, str], environ: Mapping[str, str], problems: list[Problem]
) -> tuple[Fields | None, ServiceConfig | None]:
    text = texts.get(CONFIG)
    if text is None:
        problems.append(Problem(Place(CONFIG, 1, 1), "there is no such file; `holdtrue init` writes one"))
        return None, None
    before = len(problems)
    root = compose(CONFIG, text, problems)
    if root is None:
        return None, None if len(problems) > before else ServiceConfig()
    fields = CONFIG_FILE.read(root, problems)
    if not isinstance(fields, Fields):
        return None, None
    config = service_config(fields, environ, problems)
    problems.extend(check_heartbeats(fields, config, {CONFIG: tuple(text.split("\n"))}))
    problems.extend(check_routes(fields, config))
    problems.extend(check_canary(fields, config))
    return fields, config


def _read_file(file: str, text: str, problems: list[Problem]) -> Fields | None:
    found: list[Problem] = []
    root = compose(file, text, found)
    if root is not None and (foreign := _foreign(root)):
        # A link of the folder may lead to any file of the machine: what is none of ours is not repeated, not even a word.
        problems.append(Problem(Place(file, 1, 1), foreign))
        return None
    problems.extend(found)
    fields = INVARIANTS_FILE.read(root, problems) if root is not None else None
    return fields if isinstance(fields, Fields) else None


def _foreign(root: Node) -> str:
    """Why a file can be none of ours; empty if it has a key that is, or is meant to be, one of an invariants file."""
    if not isinstance(root, nodes.Mapping):
        return f"{INVARIANTS_FILE.what} must be a mapping, not {what(root)}"
    known = [*(key.name for key in INVARIANTS_FILE.keys), *INVARIANTS_FILE.meant]
    if root.entries and not any(nearest(name, known) for name in root.entries):
        return "this is no invariants file: it has neither `version` nor `invariants`"
    return ""


def _duplicates(names: Mapping[str, list[Place]]) -> Iterable[Problem]:
    for name, places in names.items():
        for at, place in enumerate(places):
            if len(places) > 1:
                others = ", ".join(str(one) for number, one in enumerate(places) if number != at)
                yield Problem(place, f"two invariants have one name; the other is at {others}", name)


def _renamed(invariants: Iterable[Invariant], names: Mapping[str, list[Place]]) -> Iterable[Problem]:
    taken: dict[str, str] = {}
    for one in invariants:
        former, place = one.renamed_from, one.place
        if former is None or place is None:
            continue
        if former in names:
            yield Problem(place, "`renamed_from` names an invariant that is still there", former)
        if former in taken:
            yield Problem(place, f"`renamed_from` is also claimed by {taken[former]}", former)
        taken[former] = one.name


def _in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    # An anchor that is used in many places is read in each: its problem is told once.
    return tuple(sorted(dict.fromkeys(problems), key=lambda one: (one.place, not one.fatal, one.message)))
