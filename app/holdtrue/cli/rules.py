"""rules: prints the alerting rules for Prometheus"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import resources
from typing import Annotated

import typer

from holdtrue.catalog import read_config
from holdtrue.cli.options import ConfigOption
from holdtrue.cli.terminal import complain, say
from holdtrue.errors import SettingsRefused
from holdtrue.settings import environment, load_settings

_SERVICE = "  - name: holdtrue-service\n"
_LEFT_OUT = """\
# Alerting rules for Holdtrue, as `holdtrue rules` prints them where Holdtrue itself tells Alertmanager.
# Left out are HoldtrueViolated, HoldtrueUnchecked and HoldtrueDatabaseUnreachable, which are pushed by
# {notifiers} in holdtrue.yaml. `holdtrue rules --all` prints them too.
groups:
"""


def register(app: typer.Typer) -> None:
    """Add ``holdtrue rules``."""
    app.command("rules")(print_rules)


def print_rules(
    config: ConfigOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also the rules that an alertmanager notifier replaces.")
    ] = False,
) -> None:
    """Print alerting rules for Prometheus: all of them, or those that no push of holdtrue.yaml replaces.

    Exit code: 0, or 2 if holdtrue.yaml is refused.
    """
    pushing = () if everything else _pushing(config)
    if pushing:
        complain(f"left out what {', '.join(pushing)} pushes: Alertmanager would be told twice (--all prints it)")
    say(rules_text(pushing).removesuffix("\n"))


def rules_text(pushing: Sequence[str] = ()) -> str:
    """The rule file, without what the notifiers ``pushing`` tell Alertmanager by themselves."""
    # Not imported as a part of metrics: that needs the packages of the service, and this is printed on laptops.
    text = resources.files("holdtrue").joinpath("metrics", "holdtrue.rules.yml").read_text(encoding="utf-8")
    if not pushing:
        return text
    _, service, rules = text.partition(_SERVICE)
    return _LEFT_OUT.format(notifiers=", ".join(pushing)) + service + rules


def _pushing(config: ConfigOption) -> tuple[str, ...]:
    """The notifiers of holdtrue.yaml that push; none, and said so, where there is no such file and none was named."""
    settings = load_settings(config, os.environ)
    try:
        text = settings.config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        if config is not None or settings.config.exists():
            raise SettingsRefused(
                f"{settings.config} cannot be read", remedy="--config names another; --all prints every rule"
            ) from problem
        complain(f"there is no {settings.config.name} here: all rules are printed")
        return ()
    read = read_config(text, environ=environment(settings.config, os.environ))
    return tuple(one.name for one in read.state_keepers)
