"""makes the typer application out of the command modules, importing only what is asked for"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Annotated

import typer

from holdtrue import __version__
from holdtrue.cli.exits import ExitCode
from holdtrue.cli.installed import missing_install_set
from holdtrue.cli.terminal import say

MODULES = {
    "init": "init",
    "check": "check",
    "run": "run",
    "test": "test",
    "doctor": "doctor",
    "diff": "diff",
    "explain": "explain",
    "serve": "serve",
    "overview": "overview",
    "history": "history",
    "alerts": "alerts",
    "databases": "databases",
    "deliveries": "deliveries",
    "deploys": "deploys",
    "notify": "notify",
    "promote": "promote",
    "store": "store",
    "rules": "rules",
    "json-schema": "schema",
    "pull-schema": "pull_schema",
    "demo": "demo",
}
"""Every command or group of commands, in the order of the help, and the module of this package that registers it."""


def invoke(arguments: list[str]) -> int:
    """Parse and run; usage errors are shown and give 2.

    Raises:
        HoldtrueError: from the command.
        ModuleNotFoundError: a package that is not installed.
    """
    if arguments == ["--version"]:
        _say_version()
        return int(ExitCode.HOLDS)
    command = typer.main.get_command(build_app(_wanted(arguments)))
    try:
        with command.make_context("holdtrue", arguments) as context:
            result = command.invoke(context)
    except typer.Exit as end:
        return int(end.exit_code)
    except typer.Abort:
        return int(ExitCode.REFUSED)
    except typer.TyperException as problem:
        problem.show()  # type: ignore[attr-defined]  # its public base does not declare it
        return int(ExitCode.REFUSED)
    return int(result) if isinstance(result, int) else int(ExitCode.HOLDS)


def build_app(wanted: str | None = None) -> typer.Typer:
    """The application with one command, or with all of them.

    A module whose install set is missing leaves a command in its place that says which to install.
    """
    app = typer.Typer(
        name="holdtrue",
        help="Production invariants: SQL rules that must hold, asked of read replicas.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        add_completion=False,
    )
    app.callback()(_root)
    for command, module in MODULES.items():
        if wanted in (None, command):
            _register(app, command, module)
    return app


def _register(app: typer.Typer, command: str, module: str) -> None:
    try:
        register: Callable[[typer.Typer], None] = import_module(f"holdtrue.cli.{module}").register
    except ModuleNotFoundError as problem:
        refusal = missing_install_set(problem)
        if refusal is None:
            raise

        def say_what_is_missing(_context: typer.Context) -> None:
            raise refusal

        app.command(
            command,
            help=f"(not installed: {refusal.remedy})",
            context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        )(say_what_is_missing)
    else:
        register(app)


def _wanted(arguments: list[str]) -> str | None:
    """The command in these arguments if it is one of ours: the first word that is no option."""
    first = next((one for one in arguments if not one.startswith("-")), None)
    return first if first in MODULES else None


def _show_version(asked: bool) -> None:
    if asked:
        _say_version()
        raise typer.Exit


def _say_version() -> None:
    say(f"holdtrue {__version__}")


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Keep --version at the top."""
    del version
