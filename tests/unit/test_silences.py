"""What a silence matches, what its end owes, and who has an alert (semantics 7.4, 7.5)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from histories import MINUTE, START, History
from holdtrue.alerting import acknowledge, lift, matches, parse_matchers, require_sound, silenced_by, unacknowledge
from holdtrue.alerting.silencing import COMMENT_LIMIT, MATCHERS_LIMIT, VALUE_LIMIT, WhyLifted
from holdtrue.errors import Refused
from holdtrue.model import Change, Decision, Labels, Reason, Silence, Telling

HOUR = timedelta(hours=1)
REFUNDS = Labels("refund_once", "shard-1", "payments-oncall", "critical", ("money", "pci"))


def silence(*matchers: str, number: int = 1, start: timedelta = timedelta(0), end: timedelta = HOUR) -> Silence:
    return Silence(number, parse_matchers(matchers), "a migration", "alice", START, START + start, START + end)


@pytest.mark.parametrize(
    "matcher",
    [
        "name=refund_once",
        "name~refund_*",
        "database~shard-?",
        "owner=payments-oncall",
        "severity=critical",
        "tag=pci",
        "tag~m*",
        "severity~*",
        "name~*",
        " owner = payments-oncall ",
        "database~shard-[12]",
    ],
)
def test_a_matcher_compares_the_whole_value_or_a_glob(matcher: str) -> None:
    assert matches(parse_matchers([matcher]), REFUNDS)


@pytest.mark.parametrize(
    "matcher",
    ["name=refund", "name~refund", "database=shard", "owner=Payments-oncall", "tag=mon", "tag~p", "name~REFUND*"],
)
def test_neither_a_part_of_a_value_nor_another_case_matches(matcher: str) -> None:
    assert not matches(parse_matchers([matcher]), REFUNDS)


def test_every_matcher_must_hold_and_one_tag_of_several_is_enough() -> None:
    assert matches(parse_matchers(["tag=pci", "tag=money", "name~refund_*"]), REFUNDS)
    assert not matches(parse_matchers(["name=refund_once", "name=balance"]), REFUNDS)
    assert not matches(parse_matchers(["tag~*"]), Labels("refund_once", "shard-1", "", "critical"))


@pytest.mark.parametrize(
    ("matchers", "said"),
    [
        ([], "at least one"),
        (["refund_once"], "is no matcher"),
        (["team=payments"], "fields: name, owner, severity, database, tag"),
        (["name="], "is no matcher"),
        (["name=refund_*"], "name~refund_*"),
        (["severity=urgent"], "severities: critical, warning, info"),
        ([f"owner={'x' * (VALUE_LIMIT + 1)}"], "at most"),
        ([f"name~{number}" for number in range(MATCHERS_LIMIT + 1)], "at most"),
    ],
)
def test_what_is_no_matcher_or_could_never_match_is_refused_with_the_remedy(matchers: list[str], said: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse_matchers(matchers)
    assert said in str(refusal.value)


def test_matchers_are_written_as_they_are_read() -> None:
    written = ("owner=a=b~c", "name~refund_*")
    assert tuple(map(str, parse_matchers(written))) == written


@pytest.mark.parametrize(
    ("comment", "starts", "ends", "said"),
    [
        ("  ", 0, 60, "needs a comment"),
        ("x" * (COMMENT_LIMIT + 1), 0, 60, "at most"),
        ("why", 60, 60, "before it begins"),
        ("why", -60, 0, "ended already"),
    ],
)
def test_a_silence_says_why_and_ends(comment: str, starts: int, ends: int, said: str) -> None:
    with pytest.raises(Refused, match=said):
        require_sound(comment, START + starts * MINUTE, START + ends * MINUTE, START)


def test_it_is_in_force_from_its_start_to_before_its_end() -> None:
    mine = silence("name~*", start=MINUTE, end=2 * MINUTE)
    assert silenced_by([mine], REFUNDS, START) is None
    assert silenced_by([mine], REFUNDS, START + MINUTE) is mine
    assert silenced_by([mine], REFUNDS, START + 2 * MINUTE - timedelta(microseconds=1)) is mine
    assert silenced_by([mine], REFUNDS, START + 2 * MINUTE) is None


def test_of_several_the_one_that_ends_last_is_named() -> None:
    short, long, other = silence("name~*"), silence("tag=pci", number=2, end=2 * HOUR), silence("tag=x", number=3)
    assert silenced_by([long, short, other], REFUNDS, START) is long


def withheld(*reasons: Reason, first: int = 1) -> list[Telling]:
    return [Telling(number, reason, withheld=True) for number, reason in enumerate(reasons, first)]


def test_what_still_fires_and_was_never_told_is_told_once() -> None:
    """Semantics 7.5."""
    history = History()
    history.violated(3)
    lifted = lift(history.alert, withheld(Reason.FIRED), history.now, history.now)
    assert lifted.why is WhyLifted.NEVER_TOLD
    assert lifted.change is not None
    (event,) = lifted.change.events
    assert (event.reason, event.number) == (Reason.FIRED, 2)
    assert event.detail == "was silenced until 2026-11-29T12:15:00Z; 3 counted"
    again = lift(
        lifted.change.episode, [*withheld(Reason.FIRED), Telling(2, Reason.FIRED, withheld=False)], START, START
    )
    assert (again.why, again.change, again.send) == (WhyLifted.TOLD, None, ())


def test_what_was_told_before_and_grew_is_told_as_worsened() -> None:
    """Semantics 7.4, 7.5."""
    history = History()
    history.violated(3)
    tellings = [Telling(1, Reason.FIRED, withheld=False), *withheld(Reason.WORSENED, first=2)]
    lifted = lift(history.alert, tellings, history.now, history.now)
    assert lifted.why is WhyLifted.GREW
    assert lifted.change is not None
    assert lifted.change.events[0].reason is Reason.WORSENED


def test_a_withheld_reminder_or_acknowledgement_owes_nothing_afterwards() -> None:
    history = History()
    history.violated(3)
    for reason in (Reason.REMINDER, Reason.ACKNOWLEDGED, Reason.UNACKNOWLEDGED):
        tellings = [Telling(1, Reason.FIRED, withheld=False), *withheld(reason, first=2)]
        assert lift(history.alert, tellings, START, START).change is None


def test_an_end_is_sent_to_those_who_were_told_of_the_beginning_and_listed_otherwise() -> None:
    """Semantics 7.5: what opened and resolved under a silence is listed, not sent."""
    history = History()
    history.violated()
    history.held()
    ended = history.situation.previous
    assert ended is not None
    assert lift(ended, withheld(Reason.FIRED, Reason.RESOLVED), START, START).why is WhyLifted.LISTED
    told = [Telling(1, Reason.FIRED, withheld=False), *withheld(Reason.WORSENED, Reason.RESOLVED, first=2)]
    lifted = lift(ended, told, START, START)
    assert (lifted.why, lifted.send, lifted.change) == (WhyLifted.ENDED, (3,), None)


def test_a_health_alert_is_told_as_unchecked() -> None:
    """Semantics 7.5: silences match health alerts too."""
    history = History()
    history.wait(HOUR)
    assert history.situation.unchecked is not None
    lifted = lift(history.situation.unchecked, withheld(Reason.UNCHECKED), history.now, history.now)
    assert lifted.change is not None
    (event,) = lifted.change.events
    assert (event.reason, event.detail) == (Reason.UNCHECKED, "was silenced until 2026-11-29T13:00:00Z")


def take(history: History, change: Change) -> None:
    history.take(Decision(history.situation.standing, (change,)))


def acknowledged(history: History, note: str = "it is the migration") -> Change:
    change = acknowledge(history.alert, "alice", note, history.now)
    take(history, change)
    return change


def test_an_acknowledgement_says_who_and_silences_the_reminders() -> None:
    history = History(remind_every=HOUR)
    history.violated()
    (event,) = acknowledged(history).events
    assert (event.name, event.reason, event.detail) == (
        "acknowledged",
        Reason.ACKNOWLEDGED,
        "by alice: it is the migration",
    )
    assert (history.alert.acknowledged_by, history.alert.note) == ("alice", "it is the migration")
    history.violated()
    assert history.wait(timedelta(minutes=16)) is None
    history.wait(3 * HOUR)
    assert Reason.REMINDER not in history.told


def test_who_acts_through_the_store_is_named_once() -> None:
    """Semantics 11.1: the identity says "by" itself."""
    history = History()
    history.violated()
    assert acknowledge(history.alert, "by store", "", history.now).events[0].detail == "by store"
    assert acknowledge(history.alert, "alice (by store)", "mine", history.now).events[0].detail == (
        "by alice (by store): mine"
    )


def test_a_new_key_ends_it_and_is_told_at_once() -> None:
    """Semantics 7.4."""
    history = History()
    history.violated(2)
    acknowledged(history)
    history.violated(2)
    assert history.told[-1] is Reason.ACKNOWLEDGED
    history.violated(2, new=1)
    assert history.told[-1] is Reason.WORSENED
    assert history.events[-1].detail == "1 joined after alice acknowledged"
    assert (history.alert.acknowledged_by, history.alert.acknowledged_at, history.alert.note) == ("", None, "")


def test_what_was_gathered_before_it_is_acknowledged_too() -> None:
    """Semantics 7.4: only a key that joins ends it, not one that was on the page already."""
    history = History()
    history.violated(4)
    history.violated(5, new=1)
    acknowledged(history)
    history.violated(5)
    assert history.alert.acknowledged_by == "alice"
    assert history.told == [Reason.FIRED, Reason.ACKNOWLEDGED]


def test_it_ends_with_the_episode_and_does_not_pass_to_the_next() -> None:
    history = History()
    history.violated()
    acknowledged(history)
    history.held()
    history.violated()
    assert history.told[-1] is Reason.REOPENED
    assert history.alert.acknowledged_at is None


def test_an_ended_or_pending_episode_is_refused_in_words() -> None:
    history = History(fire_after=2)
    history.violated()
    with pytest.raises(Refused, match="alert 1 is pending"):
        acknowledge(history.alert, "alice", "", history.now)
    history.violated()
    with pytest.raises(Refused, match="at most 1000"):
        acknowledge(history.alert, "alice", "x" * 1001, history.now)
    with pytest.raises(Refused, match="nobody has acknowledged alert 1"):
        unacknowledge(history.alert, "bob", history.now)
    acknowledged(history)
    history.held()
    ended = history.situation.previous
    assert ended is not None
    with pytest.raises(Refused, match=r"alert 1 has ended \(resolved\)"):
        acknowledge(ended, "alice", "", history.now)
    with pytest.raises(Refused, match="ended with it"):
        unacknowledge(ended, "alice", history.now)


def test_given_back_it_is_reminded_of_again() -> None:
    history = History(remind_every=HOUR)
    history.violated()
    acknowledged(history, note="")
    change = unacknowledge(history.alert, "bob", history.now)
    take(history, change)
    assert change.events[0].detail == "by bob; alice had it"
    assert (history.alert.acknowledged_by, history.alert.note) == ("", "")
    for _ in range(4):
        history.violated()
    history.wait(MINUTE)
    assert history.told[-1] is Reason.REMINDER
