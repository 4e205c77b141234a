"""holdtrue demo: Holdtrue at work on a small refunds service with real races"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from holdtrue.cli.exits import INTERRUPTED
from holdtrue.cli.installed import demand
from holdtrue.cli.signals import Signals, Stopping
from holdtrue.cli.terminal import say, visible


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Play the whole story without a person, check every step, and end.")
    ] = False,
    postgres: Annotated[
        bool, typer.Option("--postgres", help="On a real PostgreSQL primary with a streaming replica, started here.")
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", metavar="DIR", help="Where everything is kept [default: ./demo-state; --once: temporary]"
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="The dashboard's port [default: 8080, or a free one]")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Which turns the traffic plays, and which answers are late.")] = 1,
) -> None:
    """Watch violations appear in a service that races, and what Holdtrue makes of them.

    Ctrl-C ends it all; the state folder stays. Exit code of --once: 0 if the whole story came true, else 4.
    """
    # It starts `holdtrue serve`, which could say what it lacks only in a log that goes with the folder.
    wanted = [extra for extra, needed in (("service", True), ("postgres", postgres), ("demo", once)) if needed]
    demand(wanted, "service" if wanted == ["service"] else "demo")
    # The demo brings SQLAlchemy and a server of its own: no other command needs either.
    from holdtrue.demo.narration import narrate
    from holdtrue.demo.place import choose
    from holdtrue.demo.serving import usual_port
    from holdtrue.demo.slack import Posted
    from holdtrue.demo.stage import open_stage
    from holdtrue.demo.story import Interrupted, play_once

    def show(line: str) -> None:
        say(visible(line))

    def show_message(message: Posted) -> None:
        lines = message.text.splitlines() or [""]
        show(f"          slack, {message.how}: {lines[0]}")
        for line in lines[1:]:
            show(f"            {line}")

    place = choose(state, temporary=once)
    chosen = port if port is not None else 0 if once else usual_port()
    with (
        Signals(signal.SIGINT, signal.SIGTERM) as signals,
        open_stage(
            place,
            postgres=postgres,
            port=chosen,
            seed=seed,
            stopping=Stopping(signals),
            say=show,
            on_message=show_message,
        ) as stage,
    ):
        if not once:
            narrate(stage)
        else:
            try:
                play_once(stage)
            except Interrupted:
                raise typer.Exit(INTERRUPTED) from None
            show("the whole story came true")
    if not place.temporary:
        show(f"everything is kept in {place.folder}")
