"""builds notifiers, or says everything at once that is not there for them, with its place in holdtrue.yaml"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from holdtrue.catalog import missing_of
from holdtrue.errors import CatalogRefused, SettingsRefused
from holdtrue.model import NotifierConfig, Place, Problem, Secret
from holdtrue.notifiers.alertmanager import Alertmanager
from holdtrue.notifiers.kinds import build_notifier, build_state_keeper
from holdtrue.notifiers.notifier import Notifier

_SOMEWHERE = Place("holdtrue.yaml", 1, 1)
_REMEDY = "set what they name, as this process sees its environment"


def ready(
    configs: Iterable[NotifierConfig], environ: Mapping[str, str]
) -> tuple[Mapping[str, Notifier], tuple[Alertmanager, ...]]:
    """Those that are owed messages, by name, and the Alertmanagers; none is put to work.

    Raises:
        CatalogRefused: a secret of one of them is not there, or it cannot be built; with all that is so.
    """
    messengers: dict[str, Notifier] = {}
    clusters: list[Alertmanager] = []
    problems: list[Problem] = []
    for config in configs:
        missing = list(_missing(config, environ))
        problems += missing
        if missing:
            continue
        try:
            if config.carries_state:
                clusters.append(build_state_keeper(config, environ))
            else:
                messengers[config.name] = build_notifier(config, environ)
        except SettingsRefused as refused:
            said = f"{refused.message}; {refused.remedy}" if refused.remedy else refused.message
            problems.append(Problem(config.place or _SOMEWHERE, said))
    if problems:
        raise CatalogRefused(sorted(problems, key=lambda one: one.place), remedy=_REMEDY)
    return messengers, tuple(clusters)


def _missing(config: NotifierConfig, environ: Mapping[str, str]) -> Iterator[Problem]:
    for key, option in config.options:
        for one in option if isinstance(option, tuple) else (option,):
            if isinstance(one, Secret):
                place = one.place or config.place or _SOMEWHERE
                for why in missing_of(one, environ):
                    yield Problem(place, f"`{key}` of notifier {config.name!r} cannot be read: {why}")
