"""holdtrue serve: runs the service until it is told to stop"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from holdtrue.cli.exits import ExitCode
from holdtrue.cli.options import ConfigOption
from holdtrue.cli.signals import Signals
from holdtrue.errors import SettingsRefused, StoreError
from holdtrue.settings import load_settings

if TYPE_CHECKING:
    from holdtrue.bootstrap.building import Service

_HTTP_GRACE = 2.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve)


def serve(
    config: ConfigOption = None,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="ADDRESS:PORT", help="[HOLDTRUE_LISTEN; default: 127.0.0.1:8080]")
    ] = None,
    allow_open: Annotated[
        bool, typer.Option("--allow-open", help="Listen beyond this machine without a token. [HOLDTRUE_ALLOW_OPEN]")
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Start with no invariant at all. [HOLDTRUE_ALLOW_EMPTY]")
    ] = False,
    url_file: Annotated[
        Path | None,
        typer.Option("--url-file", metavar="FILE", help="Write the URL there once it answers (for port 0)."),
    ] = None,
) -> None:
    """Ask the invariants when they are due, keep what was found, tell people, and answer on HTTP.

    SIGTERM and SIGINT end it within HOLDTRUE_GRACE; SIGHUP loads the catalog again, all or nothing.
    """
    # The whole service, which no other command needs.
    from holdtrue.bootstrap.building import build
    from holdtrue.bootstrap.logs import configure_logging
    from holdtrue.web import create_app
    from holdtrue.web.server import HttpServer

    settings = load_settings(
        config, os.environ, listen=listen, allow_open=allow_open or None, allow_empty=allow_empty or None
    )
    if not settings.config.is_file():  # else the first complaint would be of a secret, which belongs beside that file
        raise SettingsRefused(
            f"there is no {settings.config} here", remedy="`holdtrue init` writes one; --config names another"
        )
    configure_logging(settings)
    with Signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        service = build(settings, os.environ)
        http = HttpServer(create_app(service.faces), settings.host, settings.port)
        service.answers_at(http.url)
        try:
            service.start()
            http.start()
            if url_file is not None:
                _write_whole(url_file, http.url)
            while (heard := signals.next()) not in (signal.SIGTERM, signal.SIGINT):
                if heard == signal.SIGHUP:
                    _reload(service)
        finally:
            service.stop_working()
            http.stop(_HTTP_GRACE)
            service.close()
    _leave()


def _leave() -> None:
    """End the process though a thread hangs in a call to a notifier or a server: all that is to be kept is written."""
    if any(not one.daemon and one is not threading.main_thread() and one.is_alive() for one in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(ExitCode.HOLDS))


def _reload(service: Service) -> None:
    """Load again; a store that fails meanwhile leaves the old catalog in force, and us running."""
    try:
        service.reload("SIGHUP")
    except StoreError as problem:
        structlog.get_logger("holdtrue.service").error("reload_failed", problem=type(problem).__name__)


def _write_whole(path: Path, text: str) -> None:
    """Write a file that is either not there or complete."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(path)
