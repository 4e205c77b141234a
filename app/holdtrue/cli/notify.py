"""notify: lists the notifiers of holdtrue.yaml, and tries them"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Annotated

import typer

from holdtrue.catalog import load_catalog
from holdtrue.cli.exits import ExitCode
from holdtrue.cli.options import ConfigOption
from holdtrue.cli.quiet import no_log
from holdtrue.cli.terminal import complain, say, visible
from holdtrue.errors import NotFound
from holdtrue.notifiers import limits_of, ready, try_cluster, try_notifier
from holdtrue.settings import environment, load_settings


def register(app: typer.Typer) -> None:
    """Add ``holdtrue notify``."""
    group = typer.Typer(help="Try how people are told.", no_args_is_help=True)
    group.command("test")(try_one)
    group.command("list")(list_all)
    app.add_typer(group, name="notify")


def list_all(config: ConfigOption = None) -> None:
    """List the notifiers of holdtrue.yaml, and what each cannot do.

    No secret is read and nobody is told anything. Ends with 0, or with 2 if the catalog is refused.
    """
    settings = load_settings(config, os.environ)
    environ = environment(settings.config, os.environ)
    notifiers = load_catalog(settings.config, environ=environ, allow_empty=True).config.notifiers
    if not notifiers:
        say("holdtrue.yaml names no notifier: nobody is told")
    for one in notifiers:
        say(f"{visible(one.name)} ({one.kind})")
        if said := limits_of(one):
            say(f"  {said}")


def try_one(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A notifier of holdtrue.yaml.")],
    config: ConfigOption = None,
) -> None:
    """Send a clearly marked test alert, and its end, through one notifier of holdtrue.yaml.

    It asks no database, needs no running service, and leaves nothing in the store. Ends with 0 if everything was taken, 4 if
    it was not (the reason is said), 2 if the catalog, a secret or the name is refused.
    """
    settings = load_settings(config, os.environ)
    environ = environment(settings.config, os.environ)
    notifiers = load_catalog(settings.config, environ=environ, allow_empty=True).config.notifiers
    wanted = next((one for one in notifiers if one.name == name), None)
    if wanted is None:
        named = ", ".join(one.name for one in notifiers) or "there is none"
        raise NotFound(f"holdtrue.yaml names no notifier {name!r}", remedy=f"its notifiers: {named}")
    now = datetime.now(UTC)
    with no_log():
        messengers, clusters = ready([wanted], environ)
        trial = try_cluster(clusters[0], now) if wanted.carries_state else try_notifier(messengers[name], now)
    if trial.problem:
        complain(f"{visible(name)} ({wanted.kind}): not told: {visible(trial.problem)}")
        raise typer.Exit(ExitCode.FAILED)
    say(f"{visible(name)} ({wanted.kind}): told")
    for note in trial.notes:
        say(f"  {visible(note)}")
