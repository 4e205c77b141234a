"""makes and ends our silences at every member of every Alertmanager cluster too"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from holdtrue import alerting
from holdtrue.model import Catalog, Labels, MatchedField, Matcher, Matching, Silence
from holdtrue.notifiers import Alertmanager, LabelMatch, SilenceAnswer, expire
from holdtrue.notifiers import silence as silence_there
from holdtrue.quieting import Mirror

_LABELS = {
    MatchedField.NAME: "invariant",
    MatchedField.OWNER: "owner",
    MatchedField.SEVERITY: "severity",
    MatchedField.DATABASE: "database",
}


class ClusterMirror:
    """One cluster, as somewhere to silence (semantics 7.6)."""

    def __init__(self, cluster: Alertmanager, catalog: Callable[[], Catalog | None]) -> None:
        """Silence there; the catalog says which invariants have a tag, since alerts there have none."""
        self._cluster = cluster
        self._catalog = catalog
        self.name = cluster.name

    def silence(self, silence: Silence) -> str:
        """Make it at every member; in words where it could not be made, else empty."""
        wanted = label_matches(silence.matchers, self._catalog())
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


def mirrors_of(clusters: Sequence[Alertmanager], catalog: Callable[[], Catalog | None]) -> tuple[Mirror, ...]:
    """Every cluster, as somewhere to silence."""
    return tuple(ClusterMirror(one, catalog) for one in clusters)


def label_matches(matchers: Sequence[Matcher], catalog: Catalog | None) -> tuple[LabelMatch, ...] | None:
    """The same conditions on labels; a tag becomes the names of the invariants that have it now, None if there is none."""
    found = []
    for one in matchers:
        if one.field is MatchedField.TAG:
            names = _tagged(one, catalog)
            if not names:
                return None
            found.append(LabelMatch("invariant", "|".join(map(re.escape, names)), regex=True))
        elif one.matching is Matching.GLOB:
            found.append(LabelMatch(_LABELS[one.field], pattern_of(one.value), regex=True))
        else:
            found.append(LabelMatch(_LABELS[one.field], one.value))
    return tuple(found)


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
