"""what holdtrue.yaml says, as a ServiceConfig"""

from __future__ import annotations

import zoneinfo
from collections.abc import Mapping

from holdtrue.catalog import nodes
from holdtrue.catalog.addresses import misspelt_parameters
from holdtrue.catalog.canary import canary_of
from holdtrue.catalog.notifiers import notifier_config
from holdtrue.catalog.packages import is_missing, package_for
from holdtrue.catalog.routes import routes_of
from holdtrue.catalog.secrets import dialect_of, scheme_of
from holdtrue.catalog.shapes import Fields, nearest
from holdtrue.model import (
    DatabaseConfig,
    Deadman,
    Dialect,
    Freshness,
    Problem,
    ReplicaConfig,
    Retention,
    ServiceConfig,
    StoreConfig,
)

_NO_REPLICATION = (Dialect.SQLITE, Dialect.OTHER)
_AS_WRITTEN = ("heartbeat", "max_lag", "allow_primary", "search_path", "concurrency", "schema_file")


def service_config(fields: Fields, environ: Mapping[str, str], problems: list[Problem]) -> ServiceConfig:
    """The configuration, as far as it could be read; what is missing or wrong is in ``problems``."""
    databases = [_database(name, one, environ, problems) for name, one in fields.get("databases", {}).items()]
    notifiers = [notifier_config(name, one, problems) for name, one in fields.get("notifiers", {}).items()]
    store = fields.get("store")
    retention = fields.get("retention")
    deadman = fields.get("deadman")
    return ServiceConfig(
        store=StoreConfig(store.get("url", StoreConfig().url)) if store else StoreConfig(),
        databases=tuple(one for one in databases if one is not None),
        notifiers=tuple(one for one in notifiers if one is not None),
        routes=routes_of(fields),
        deadman=Deadman(**deadman.values) if deadman is not None and "url" in deadman else None,
        canary=canary_of(fields),
        retention=Retention(**retention.values) if retention else Retention(),
        external_url=fields.get("external_url", "").rstrip("/"),
    )


def check_timezone(name: str, node: nodes.Node, problems: list[Problem]) -> bool:
    """Whether there is such a time zone; a problem says so if not."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        folded = {one.lower(): one for one in zoneinfo.available_timezones()}
        near = folded.get(name.lower()) or folded.get(nearest(name.lower(), folded), "")
        problems.append(Problem(node.place, "there is no such time zone", name, near))
        return False
    return True


def _database(name: str, fields: Fields, environ: Mapping[str, str], problems: list[Problem]) -> DatabaseConfig | None:
    replicas = _replicas(fields, problems)
    dialect = _dialect(name, fields, replicas, environ, problems)
    timezone = fields.get("timezone", "UTC")
    if "timezone" in fields:
        check_timezone(timezone, fields.written["timezone"][1], problems)
    _check_addresses(fields, dialect, problems)
    single = dialect in _NO_REPLICATION
    freshness = Freshness(fields.get("freshness", Freshness.NONE if single else Freshness.STREAMING))
    if dialect is Dialect.SQLITE:
        _check_sqlite(fields, freshness, problems)
    elif dialect is Dialect.OTHER:
        _check_other(fields, replicas, freshness, environ, problems)
    if not replicas:
        return None
    safe = fields.get("safe_columns")
    return DatabaseConfig(
        name=name,
        dialect=dialect,
        replicas=replicas,
        freshness=freshness,
        timezone=timezone,
        safe_columns=None if safe is None else frozenset(safe),
        **{key: fields.get(key) for key in _AS_WRITTEN if key in fields},
    )


def _check_addresses(fields: Fields, dialect: Dialect, problems: list[Problem]) -> None:
    for one in fields.get("replicas", ()):
        if "url" in one:
            place = one.written["url"][1].place
            for wrong in misspelt_parameters(one.get("url").template, dialect):
                problems.append(Problem(place, wrong.message, wrong.word, wrong.meant))


def _check_sqlite(fields: Fields, freshness: Freshness, problems: list[Problem]) -> None:
    if "allow_primary" not in fields.written or fields.get("allow_primary") is False:
        place = fields.written["allow_primary"][1].place if "allow_primary" in fields.written else fields.node.place
        message = "a SQLite file is the primary itself, so it must be allowed: write `allow_primary: true`"
        problems.append(Problem(place, message))
    if freshness is not Freshness.NONE:
        place = fields.written["freshness"][1].place
        message = "a SQLite file has no replication whose freshness could be proven: write `freshness: none`"
        problems.append(Problem(place, message, str(freshness), "none"))


def _check_other(
    fields: Fields,
    replicas: tuple[ReplicaConfig, ...],
    freshness: Freshness,
    environ: Mapping[str, str],
    problems: list[Problem],
) -> None:
    """What cannot be known of another kind of database must be said."""
    kind = "Of a database that is none of PostgreSQL, MariaDB, MySQL and SQLite"
    if not fields.get("allow_primary", False):
        place = fields.written["allow_primary"][1].place if "allow_primary" in fields.written else fields.node.place
        message = f"{kind}, it cannot be known whether it is a replica: write `allow_primary: true`"
        problems.append(Problem(place, message))
    if freshness is not Freshness.NONE:
        message = f"{kind}, freshness cannot be proven: write `freshness: none`"
        problems.append(Problem(fields.written["freshness"][1].place, message, str(freshness), "none"))
    if "search_path" in fields.written:
        message = f"{kind}, a search path cannot be set: write it into the URL, or names in full"
        problems.append(Problem(fields.written["search_path"][0].place, message))
    for scheme in sorted({found for one in replicas if (found := scheme_of(one.url, environ))}):
        if is_missing(scheme):
            package = package_for(scheme)
            remedy = f"pip install {package}" if package else "pip install the SQLAlchemy dialect for it"
            message = f"no driver for {scheme} is installed here: {remedy}"
            problems.append(Problem(fields.node.place, message, fatal=False))


def _replicas(fields: Fields, problems: list[Problem]) -> tuple[ReplicaConfig, ...]:
    found: dict[str, ReplicaConfig] = {}
    for one in fields.get("replicas", ()):
        name = one.get("name")
        if "password" in one.written and "password_command" in one.written:
            place = one.written["password_command"][0].place
            problems.append(Problem(place, "`password` and `password_command` exclude each other; keep one"))
        if name in found:
            problems.append(Problem(one.written["name"][1].place, "two replicas have this name", name))
        if name is None or "url" not in one:
            continue
        found[name] = ReplicaConfig(name, one.get("url"), one.get("password"), one.get("password_command", ()))
    return tuple(found.values())


def _dialect(
    name: str,
    fields: Fields,
    replicas: tuple[ReplicaConfig, ...],
    environ: Mapping[str, str],
    problems: list[Problem],
) -> Dialect:
    declared = Dialect(fields.get("dialect")) if "dialect" in fields else None
    seen = {found for one in replicas if (found := dialect_of(one.url, environ)) is not None}
    key = fields.written.get("dialect", (fields.node, fields.node))[0]
    if len(seen) > 1:
        kinds = " and ".join(sorted(seen))
        problems.append(Problem(fields.node.place, f"the replicas of one database are of one kind; these are {kinds}"))
    if declared is not None and seen and declared not in seen and declared is not Dialect.OTHER:
        message = f"`dialect` says {declared}, and the URL says {min(seen)}"
        problems.append(Problem(key.place, message, str(declared), str(min(seen))))
    if declared is not None:
        return declared
    if seen:
        return min(seen)
    if replicas:
        message = (
            f"the kind of database {name!r} is not known while the variable of its URL is not set; "
            "its texts are read as PostgreSQL's (say `dialect:`)"
        )
        problems.append(Problem(fields.node.place, message, fatal=False))
    return Dialect.POSTGRESQL
