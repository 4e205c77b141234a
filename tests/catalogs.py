"""Small catalogs for tests: two texts in, an examination out."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from holdtrue.catalog import Examination, examine
from holdtrue.model import Catalog, Invariant, Problem

POSTGRES = """
databases:
  shop:
    replicas: [{name: r1, url: "postgresql://holdtrue@localhost/shop"}]
  shard-1:
    replicas: [{name: r1, url: "postgresql://holdtrue@localhost/one"}]
  shard-2:
    replicas: [{name: r1, url: "postgresql://holdtrue@localhost/two"}]
"""
SQLITE = "databases: {shop: {replicas: [{name: file, url: 'sqlite:///shop.db'}], allow_primary: true}}\n"
MYSQL = "databases: {shop: {replicas: [{name: r1, url: 'mysql://holdtrue@localhost/shop'}]}}\n"


def look(
    invariants: str | Mapping[str, str],
    config: str = POSTGRES,
    *,
    environ: Mapping[str, str] | None = None,
    allow_empty: bool = False,
) -> Examination:
    """Examine one file of invariants (or several, by path) beside a configuration."""
    files = {"invariants/a.yaml": invariants} if isinstance(invariants, str) else invariants
    texts = {"holdtrue.yaml": config, **{name: textwrap.dedent(text) for name, text in files.items()}}
    return examine(texts, environ=environ or {}, allow_empty=allow_empty)


def accepted(invariants: str | Mapping[str, str], config: str = POSTGRES, **options: object) -> Catalog:
    """The catalog of texts that must be accepted."""
    found = look(invariants, config, **options)  # type: ignore[arg-type]
    assert found.catalog is not None, [str(one) for one in found.problems]
    return found.catalog


def one(keys: str, config: str = POSTGRES) -> Invariant:
    """The one invariant of a file: its keys, indented as the body of a list's item, beside a name and a database."""
    (found,) = accepted(item(keys), config).invariants
    return found


def item(keys: str) -> str:
    """A file with one invariant that has these keys, beside a name on line 2 and a database on line 3."""
    body = textwrap.indent(textwrap.dedent(keys).strip("\n"), "    ")
    return f"invariants:\n  - name: rule\n    database: shop\n{body}\n"


def refused(invariants: str | Mapping[str, str], config: str = POSTGRES, **options: object) -> tuple[Problem, ...]:
    """Why these texts are refused; they must be."""
    found = look(invariants, config, **options)  # type: ignore[arg-type]
    assert found.catalog is None
    assert found.refusals
    return found.refusals


def the_refusal(invariants: str | Mapping[str, str], config: str = POSTGRES, **options: object) -> Problem:
    """The only reason."""
    found = refused(invariants, config, **options)
    assert len(found) == 1, [str(problem) for problem in found]
    return found[0]


def warnings(invariants: str | Mapping[str, str], config: str = POSTGRES) -> list[str]:
    """What is warned of in texts that are accepted."""
    return [problem.message for problem in accepted(invariants, config).warnings]
