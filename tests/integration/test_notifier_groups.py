"""What every kind that can tell of many alerts at once keeps to (semantics 7.4): one contract, each against its stub."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from holdtrue.model import Delivered, Ending, Mark, Parcel, Reason, Sample, Subject, Undelivered
from holdtrue.notifiers import Gathering, Outage, OutageTeller
from scenes.told import EPISODE, HOSTILE, KINDS, RESOLVED, UNCHECKED, Stand, notifier_at, parcel, standing

EACH_ALONE = ("webhook", "pagerduty")
"""The kinds that are given every violation by itself."""


@pytest.fixture(params=[one for one in KINDS if one != "webhook"])
def teller(request: pytest.FixtureRequest) -> Iterator[tuple[Stand, OutageTeller]]:
    with standing(request.param) as made:
        notifier = made.notifier
        assert isinstance(notifier, OutageTeller)
        yield made, notifier
        assert made.problems() == []


@pytest.fixture(params=[one for one in KINDS if one not in EACH_ALONE])
def gathering(request: pytest.FixtureRequest) -> Iterator[tuple[Stand, Gathering]]:
    with standing(request.param) as made:
        notifier = made.notifier
        assert isinstance(notifier, Gathering)
        yield made, notifier
        assert made.problems() == []


def test_the_others_have_no_word_for_many() -> None:
    for kind in EACH_ALONE:
        assert not isinstance(notifier_at(kind, 9), Gathering)
    assert not isinstance(notifier_at("webhook", 9), OutageTeller)


def many(count: int = 50, **more: Any) -> list[Parcel]:
    """As many as one message holds: of each three one is violated, one unchecked, one ended."""
    found = []
    for number in range(1, count + 1):
        episode, reason = ((EPISODE, Reason.FIRED), (UNCHECKED, Reason.UNCHECKED), (RESOLVED, Reason.RESOLVED))[
            number % 3
        ]
        episode = replace(episode, id=number, invariant=f"rule_{number:02}", **more)
        page = f"https://holdtrue.example.com/alerts/{number}"
        found.append(parcel(episode, reason, page_url=page, sample=Sample(("id",), (("x" * 400,),) * 9)))
    return found


def test_many_alerts_are_one_message_that_leaves_none_out(gathering: tuple[Stand, Gathering]) -> None:
    """Semantics 7.4: what is violated stands before what nobody could look at, and that before what ended."""
    stand, notifier = gathering
    assert isinstance(notifier.deliver_group(many(), {"payments"}), Delivered)
    [told] = stand.told()
    assert all(f"rule_{number:02}" in told for number in range(1, 51))
    assert all(f"/alerts/{number}" in told for number in range(1, 51))
    assert told.index("rule_03") < told.index("rule_01") < told.index("rule_02")
    assert "16 violated, 17 unchecked, 17 ended" in told
    assert "no replica of it can be asked" in told or "unreachable: payments" in told
    assert "Bcc" not in told


def test_a_database_that_is_down_is_one_message_as_its_alerts_join_and_end(teller: tuple[Stand, OutageTeller]) -> None:
    """Semantics 7.4: how many are unchecked, and at the end that all were looked at, with what was found then."""
    stand, notifier = teller
    down = [
        parcel(
            replace(UNCHECKED, id=number, invariant=f"rule_{number}"), Reason.UNCHECKED, detail="no good run for 31m"
        )
        for number in range(1, 61)
    ]
    first = notifier.deliver_outage(Outage("payments", tuple(down[:59]), unreachable=True))
    assert isinstance(first, Delivered)
    posts = len(stand.told())
    joined = notifier.deliver_outage(Outage("payments", (down[59],), tuple(down[:59]), first.thread, unreachable=True))
    assert isinstance(joined, Delivered)
    assert joined.thread == first.thread
    assert len(stand.told()) == posts + (stand.kind != "slack bot")
    told = "\n".join(stand.told())
    assert "60" in told
    assert "no replica of it can be asked" in told or "unreachable" in told
    over = [
        parcel(
            replace(RESOLVED, subject=Subject.HEALTH, ending=Ending.RECOVERED, id=number, invariant=f"rule_{number}"),
            Reason.RECOVERED,
            detail="looked again after 2h: it is violated, 3 counted",
        )
        for number in range(1, 61)
    ]
    last = notifier.deliver_outage(Outage("payments", tuple(over[:2]), tuple(over[2:]), first.thread))
    assert isinstance(last, Delivered)
    assert "ooked at again (recovered)" in stand.told()[-1]
    assert "it is violated, 3 counted" in stand.told()[-1]
    before = len(stand.told())
    assert isinstance(notifier.redraw_outage(Outage("payments", (), tuple(over), first.thread)), Delivered)
    assert len(stand.told()) == before or stand.kind == "pagerduty"
    stand.trouble("busy")
    assert isinstance(notifier.deliver_outage(Outage("payments", tuple(over))), Undelivered)


def test_a_shared_message_that_is_told_again_says_so(gathering: tuple[Stand, Gathering]) -> None:
    """Semantics 7.3."""
    stand, notifier = gathering
    found = many(7)
    found[3] = replace(found[3], message=replace(found[3].message, marks=(Mark.MAY_BE_A_REPEAT,)))
    assert isinstance(notifier.deliver_group(found, ()), Delivered)
    assert "may be a repeat" in stand.told()[0]


@pytest.mark.parametrize("trouble", ["busy", "pause", "refused", "lost"])
def test_a_shared_message_fails_as_any_other(gathering: tuple[Stand, Gathering], trouble: Any) -> None:
    stand, notifier = gathering
    stand.trouble(trouble)
    result = notifier.deliver_group(many(7), ())
    assert isinstance(result, Undelivered)
    assert result.permanent == (trouble == "refused")
    assert all(secret not in result.sentence for secret in stand.secrets)


def test_hostile_texts_of_many_alerts_stay_text_and_within_every_limit(teller: tuple[Stand, OutageTeller]) -> None:
    stand, notifier = teller
    for text in (*HOSTILE, "\U0001f4a5" * 9_000):
        found = [
            replace(
                one,
                episode=replace(one.episode, database=text, owner=text, invariant=text, acknowledged_by=text),
                event=replace(one.event, detail=text),
                description=text,
                health_sentence=text,
                page_url=text,
                runbook_url=text,
                links=((text, text),) * 20,
            )
            for one in many()
        ]
        if isinstance(notifier, Gathering):
            assert isinstance(notifier.deliver_group(found, {text}), Delivered)
        unseen = tuple(one for one in found if one.episode.subject is Subject.HEALTH)
        assert isinstance(
            notifier.deliver_outage(Outage(text, unseen, tuple(found[2::3]), unreachable=True)), Delivered
        )
    assert len(stand.told()) == (1 + isinstance(notifier, Gathering)) * (len(HOSTILE) + 1)
    for told in stand.told():
        assert "\x1b" not in told or stand.notifier.kind == "webhook"
        assert all(str(number) in told for number in range(1, 51, 3))
