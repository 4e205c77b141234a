"""holdtrue store: upgrade, check"""

from __future__ import annotations

import os

import typer

from holdtrue.cli.exits import ExitCode
from holdtrue.cli.options import ConfigOption
from holdtrue.cli.reading import open_store_of
from holdtrue.cli.terminal import complain, say, visible
from holdtrue.settings import load_settings


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(help="Our own database.", no_args_is_help=True)
    group.command("upgrade")(upgrade)
    group.command("check")(check)
    app.add_typer(group, name="store")


def upgrade(config: ConfigOption = None) -> None:
    """Bring the store's schema to this version. Exit code: 0 done, 4 it could not be."""
    with open_store_of(load_settings(config, os.environ), make=True) as store:
        store.upgrade()
    say("the store's schema is this version's")


def check(config: ConfigOption = None) -> None:
    """Say whether the store can be used: it answers, takes a write, and has this version's schema. Exit code: 0 or 4."""
    with open_store_of(load_settings(config, os.environ)) as store:
        problems = store.check()
    for problem in problems:
        complain(visible(problem))
    if problems:
        raise typer.Exit(int(ExitCode.FAILED))
    say("the store answers and has this version's schema")
