"""holdtrue deploys add, list: what went out, so that alerts can say what went out before them"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from holdtrue.cli.history import since_when
from holdtrue.cli.options import ByOption, ConfigOption, Format, FormatOption, UrlOption
from holdtrue.cli.reading import open_through
from holdtrue.cli.terminal import say, say_json, table, visible
from holdtrue.errors import Refused
from holdtrue.model import BY_STORE, utc

if TYPE_CHECKING:
    from holdtrue.cli.client import ServiceClient
    from holdtrue.store import Store

Json = dict[str, Any]


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(help="What went out, and when: shown beside the window of an alert.", no_args_is_help=True)
    group.command("add")(add)
    group.command("list")(list_)
    app.add_typer(group, name="deploys")


def add(  # noqa: PLR0917  typer makes options of them
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="What was deployed.")],
    version: Annotated[str, typer.Argument(metavar="VERSION", help="A version, a tag, a commit.")],
    at: Annotated[str, typer.Option("--at", metavar="WHEN", help="When, in ISO 8601. [default: now]")] = "",
    by: ByOption = "",
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """Tell of a deploy. The same one told twice with the same --at is one. Exit code: 0 if it is kept, 2 if it was refused."""
    moment = _moment(at) if at else None
    with _open_telling(config, url) as telling:
        report = telling.add(service, version, moment, by)
    if format_ is Format.JSON:
        say_json(report)
        return
    say(f"deployed {visible(report['service'])} {visible(report['version'])} at {report['at']}")


def list_(
    service: Annotated[str | None, typer.Option("--service", metavar="NAME", help="Only its deploys.")] = None,
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="A duration back from now (24h, 7d) or a moment in ISO 8601.")
    ] = "7d",
    config: ConfigOption = None,
    url: UrlOption = None,
    format_: FormatOption = Format.TEXT,
) -> None:
    """List the deploys that were told of, the latest first. Exit code: 0 if they could be read."""
    start = since_when(since, datetime.now(UTC))
    with _open_telling(config, url) as telling:
        report = telling.list(service, start)
    if format_ is Format.JSON:
        say_json(report)
        return
    if not report["deploys"]:
        say("no deploy was told of since then (`holdtrue deploys add`, or POST /api/v1/deploys)")
        return
    rows = [(one["at"], one["service"], one["version"], one["by"]) for one in report["deploys"]]
    for line in table(rows, headings=("AT", "SERVICE", "VERSION", "BY")):
        say(line)


class _Telling(Protocol):
    """Deploys through the service or the store."""

    def add(self, service: str, version: str, at: datetime | None, by: str) -> Json:
        """Tell of one."""
        ...

    def list(self, service: str | None, since: datetime) -> Json:
        """Those since a moment."""
        ...


def _open_telling(config: Path | None, url: str | None) -> AbstractContextManager[_Telling]:
    return open_through(config, url, _ThroughService, _ThroughStore)


class _ThroughService:
    """Asks /api/v1."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    def add(self, service: str, version: str, at: datetime | None, by: str) -> Json:
        when = {} if at is None else {"at": at.isoformat()}
        return self._client.post("deploys", body={"service": service, "version": version, "by": by, **when})

    def list(self, service: str | None, since: datetime) -> Json:
        found = self._client.get("deploys", service=service, since=since.isoformat(), limit=1000)
        return {"deploys": found["deploys"]}


class _ThroughStore:
    """Acts on the store itself, as ``by store``."""

    def __init__(self, store: Store, _environ: Mapping[str, str]) -> None:
        self._store = store

    def add(self, service: str, version: str, at: datetime | None, by: str) -> Json:
        from holdtrue import quieting, reports  # only where the store is opened: the client needs none of it

        signed = quieting.signed(BY_STORE, by)
        made = self._store.deploys.add(service, version, at=at, by=str(signed), who=signed.identity)
        return reports.deploy(made)

    def list(self, service: str | None, since: datetime) -> Json:
        from holdtrue import reports

        found = self._store.deploys.list(service=service, since=since, limit=1000)
        return {"deploys": reports.deploys(found, 1000)["deploys"]}


def _moment(text: str) -> datetime:
    try:
        return utc(datetime.fromisoformat(text))
    except (ValueError, OverflowError) as problem:
        raise Refused(f"--at {text} is no moment with a zone", remedy="write 2026-11-29T18:00:00Z") from problem
