"""the definition's hash: everything of an invariant that decides what counts, and nothing else (semantics 1.1)"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import timedelta

from holdtrue.catalog.pieces import normal_form
from holdtrue.model import Returns, Settle, Waiver


def definition_hash(
    *,
    sql: str,
    returns: Returns = Returns.ROWS,
    key: Sequence[str] = (),
    databases: Sequence[str] = (),
    settle: Settle | None = None,
    confirm: timedelta | None = None,
    tolerate: int = 0,
    population: str | None = None,
    waive: Sequence[Waiver] = (),
    count_limit: int | None = None,
    mysql: bool = False,
) -> str:
    """The hash of a definition, 32 hexadecimal digits; white space and comments of the texts are no part of it.

    ``databases`` are as declared, patterns unresolved: one shard more is no new definition for the others. ``mysql`` says
    that one of them reads comments as MySQL does.
    """
    parts = {
        "sql": normal_form(sql, mysql=mysql),
        "returns": str(returns),
        "key": list(key),
        "databases": sorted(set(databases)),
        "settle": None if settle is None else [settle.column, _seconds(settle.after), _seconds(settle.at_most)],
        "confirm": None if confirm is None else _seconds(confirm),
        "tolerate": tolerate,
        "population": None if population is None else normal_form(population, mysql=mysql),
        "waive": sorted([sorted(map(list, one.key)), one.until.isoformat()] for one in waive),
        "count_limit": count_limit,
    }
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def meaning_hash(*, sql: str, returns: Returns, key: Sequence[str], mysql: bool = False) -> str:
    """The hash of what an equal key means: the text and the key columns, 32 hexadecimal digits (semantics 5.4)."""
    return definition_hash(sql=sql, returns=returns, key=key, mysql=mysql)


def _seconds(duration: timedelta) -> float:
    return duration.total_seconds()
