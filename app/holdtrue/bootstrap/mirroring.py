"""makes and ends our silences at every member of every Alertmanager cluster too"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from holdtrue import alerting
from holdtrue.errors import StoreError
from holdtrue.model import Catalog, Episode, Labels, MatchedField, Matcher, Matching, Silence
from holdtrue.notifiers import Alertmanager, LabelMatch, SilenceAnswer, expire
from holdtrue.notifiers import silence as silence_there
from holdtrue.quieting import Mirror

_LABELS = {
    MatchedField.NAME: "invariant",
    MatchedField.OWNER: "owner",
    MatchedField.SEVERITY: "severity",
    MatchedField.DATABASE: "database",
}

Fired = Callable[[], Sequence[Episode]]


class ClusterMirror:
    """One cluster, as somewhere to silence (semantics 7.6)."""

    def __init__(self, cluster: Alertmanager, catalog: Callable[[], Catalog | None], fired: Fired) -> None:
        """Silence there; the catalog says which invariants have a tag, since alerts there have none.

        ``fired`` are the episodes that fire: there they have the names that they fired with, here also their present ones.
        """
        self._cluster = cluster
        self._catalog = catalog
        self._fired = fired
        self.name = cluster.name

    def silence(self, silence: Silence) -> str:
        """Make it at every member; in words where it could not be made, else empty."""
        try:
            fired = self._fired()
        except StoreError:
            return "the names that alerts fired with could not be read from the store"
        wanted = label_matches(silence.matchers, self._catalog(), fired)
        if wanted is None:
            return "no invariant has such a tag now"
        answers = silence_there(
            self._cluster,
            _mark(silence),
            wanted,
            starts_at=silence.starts_at,
            ends_at=silence.ends_at,
            by=silence.created_by,
            comment=silence.comment,
        )
        return _problems(answers)

    def unsilence(self, silence: Silence) -> str:
        """End it at every member; in words where it could not be ended, else empty."""
        return _problems(expire(self._cluster, _mark(silence)))


def mirrors_of(
    clusters: Sequence[Alertmanager], catalog: Callable[[], Catalog | None], fired: Fired
) -> tuple[Mirror, ...]:
    """Every cluster, as somewhere to silence."""
    return tuple(ClusterMirror(one, catalog, fired) for one in clusters)


def label_matches(
    matchers: Sequence[Matcher], catalog: Catalog | None, fired: Sequence[Episode] = ()
) -> tuple[LabelMatch, ...] | None:
    """The same conditions on labels; a tag becomes the names of the invariants that have it now, None if there is none.

    What fires under a former name has that name there, and is matched here by its present one too.
    """
    found = []
    for one in matchers:
        match = _label_match(one, catalog, fired)
        if match is None:
            return None
        found.append(match)
    return tuple(found)


def _label_match(matcher: Matcher, catalog: Catalog | None, fired: Sequence[Episode]) -> LabelMatch | None:
    if matcher.field is MatchedField.TAG:
        names = _tagged(matcher, catalog)
        former = _former_names(fired, names.__contains__)
        return LabelMatch("invariant", _any_of([*names, *former]), regex=True) if names else None
    label, former = _LABELS[matcher.field], []
    if matcher.field is MatchedField.NAME:
        former = _former_names(fired, lambda name: alerting.matches([matcher], Labels(name, "", "", "")))
    if matcher.matching is Matching.GLOB:
        return LabelMatch(label, "|".join([pattern_of(matcher.value), *map(re.escape, former)]), regex=True)
    return (
        LabelMatch(label, _any_of([matcher.value, *former]), regex=True) if former else LabelMatch(label, matcher.value)
    )


def _former_names(fired: Sequence[Episode], matched: Callable[[str], bool]) -> list[str]:
    """The names that alerts fired with whose invariants have another name now, which is matched."""
    found = {one.fired_as for one in fired if one.fired_as and matched(one.invariant) and not matched(one.fired_as)}
    return sorted(found)


def _any_of(names: Sequence[str]) -> str:
    return "|".join(map(re.escape, names))


def pattern_of(glob: str) -> str:
    """A glob as a pattern of RE2 for the whole label."""
    out, place = [], 0
    while place < len(glob):
        sign = glob[place]
        place += 1
        end = glob.find("]", place + 1 + glob.startswith("!", place)) if sign == "[" else -1
        if sign == "*":
            out.append(".*")
        elif sign == "?":
            out.append(".")
        elif end >= 0:
            out.append(_class(glob[place:end]))
            place = end + 1
        else:
            out.append(re.escape(sign))
    return f"(?s:{''.join(out)})"


def _class(inner: str) -> str:
    """What stands between brackets, with a dash for a range and ``!`` for "none of these" as in globs."""
    negated = inner.startswith("!")
    signs = inner[1:] if negated else inner
    escaped = "".join(sign if sign.isalnum() or sign == "-" else re.escape(sign) for sign in signs)
    return f"[{'^' if negated else ''}{escaped}]"


def _tagged(matcher: Matcher, catalog: Catalog | None) -> list[str]:
    invariants = catalog.invariants if catalog is not None else ()
    return sorted(
        one.name
        for one in invariants
        if alerting.matches([matcher], Labels(one.name, "", one.owner, one.severity.value, one.tags))
    )


def _mark(silence: Silence) -> str:
    # The moment too: two installations may share a cluster, and both have a silence 12.
    return f"holdtrue silence {silence.id} of {silence.created_at:%Y%m%dT%H%M%S.%f}"


def _problems(answers: Sequence[SilenceAnswer]) -> str:
    return "; ".join(f"{one.member}: {one.problem}" for one in answers if one.problem)
