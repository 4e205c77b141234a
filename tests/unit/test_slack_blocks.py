"""What Slack is told: escaped, within limits, and never better news than there is (design 10)."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdtrue.model import (
    AlertState,
    Ending,
    Episode,
    Event,
    Mark,
    Message,
    MessageState,
    Parcel,
    Reason,
    Sample,
    Subject,
)
from holdtrue.notifiers.slack_blocks import Content, main_message, reply, text_alone
from holdtrue.notifiers.slack_texts import code, escape, fitted, link
from servers.slack import problems_of

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
EPISODE = Episode(
    "one_refund",
    "payments",
    Subject.VIOLATION,
    AlertState.FIRING,
    NOW,
    "d1",
    "critical",
    "payments-oncall",
    id=12,
    fired_at=NOW,
    count=7,
    peak=7,
    events=1,
)


def parcel(
    reason: Reason = Reason.FIRED, *, episode: Episode = EPISODE, detail: str = "7 counted", **of: object
) -> Parcel:
    made = Parcel(
        message=Message(1, episode.id, episode.events, "oncall", reason, MessageState.PENDING, NOW),
        event=Event(episode.events, reason.value, NOW, reason, count=episode.count, detail=detail, episode=episode.id),
        episode=episode,
        description="Every dispute has at most one settled refund.",
        sample=Sample(("dispute_id", "state"), (("dsp_9", "h:3fa9c1d2"),), masked=frozenset({"state"})),
        runbook_url="https://wiki.example.test/refunds",
        links=(("Ledger", "https://ledger.example.test/x"),),
        page_url="https://holdtrue.example.test/alerts/12",
        now=NOW,
        health_sentence="violated, 1m ago",
    )
    return replace(made, **of)  # type: ignore[arg-type]


def ended(ending: Ending, **of: object) -> Episode:
    done = replace(EPISODE, state=AlertState.RESOLVED, ended_at=NOW + timedelta(hours=2, minutes=5), ending=ending)
    return replace(done, **of)  # type: ignore[arg-type]


def told(content: Content) -> str:
    return json.dumps(content.blocks, ensure_ascii=False)


def test_a_fired_message_says_what_where_how_many_and_what_to_do() -> None:
    """Design 10: links to dashboard and runbook, and the line to promote."""
    shown = told(main_message(parcel()))
    for expected in (
        "Violated: one_refund on payments",
        "*Counted*\\n7",
        "dispute_id: dsp_9",
        "h:3fa9c1d2",
        "values written h:… are hashed",
        "+6 more",
        "<https://holdtrue.example.test/alerts/12|Alert 12>",
        "<https://wiki.example.test/refunds|Runbook>",
        "`holdtrue promote 12`",
        "Now: violated, 1m ago",
    ):
        assert expected in shown
    assert main_message(parcel()).text == "[critical] Fired: one_refund on payments: 7 counted"


@pytest.mark.parametrize(
    ("reason", "episode", "said"),
    [
        (Reason.RESOLVED, ended(Ending.RESOLVED), "Holds again after 2h5m"),
        (Reason.REDEFINED, ended(Ending.REDEFINED), "Redefined, not resolved"),
        (Reason.WITHDRAWN, ended(Ending.WITHDRAWN), "Withdrawn, not resolved"),
        (Reason.RECOVERED, ended(Ending.RECOVERED, subject=Subject.HEALTH), "Looked at again (recovered)"),
        (Reason.UNCHECKED, replace(EPISODE, subject=Subject.HEALTH), "Unchecked"),
        (Reason.REOPENED, replace(EPISODE, follows=3), "Reopened, follows alert 3"),
        (Reason.WORSENED, EPISODE, "Worsened"),
        (Reason.REMINDER, EPISODE, "Still violated"),
        (Reason.REMINDER, replace(EPISODE, subject=Subject.HEALTH), "Still unchecked"),
    ],
)
def test_every_reason_has_words_of_its_own_and_only_a_run_that_held_says_so(
    reason: Reason, episode: Episode, said: str
) -> None:
    """Semantics 0: nothing but a resolved episode is shown green."""
    shown = told(main_message(parcel(reason, episode=episode)))
    assert said in shown
    assert ("🟢" in shown) == (episode.ending is Ending.RESOLVED)
    assert ("Holds again" in shown) == (episode.ending is Ending.RESOLVED)
    assert "normal" not in shown.lower()


def test_marks_and_overtaken_reasons_are_said() -> None:
    """Semantics 7.3: may be a repeat; a resolved that overtook a fired stands for it."""
    one = parcel(Reason.RESOLVED, episode=ended(Ending.RESOLVED))
    message = replace(one.message, marks=(Mark.MAY_BE_A_REPEAT,), overtook=(Reason.FIRED,))
    event = replace(one.event, marks=(Mark.AT_FIRST_LOOK,))
    shown = told(main_message(replace(one, message=message, event=event)))
    assert "may be a repeat" in shown
    assert "at first look" in shown
    assert "stands also for: fired" in shown
    assert "may be a repeat" in text_alone(replace(one, message=message))


def test_new_rows_come_first() -> None:
    """Of the rows, those that are news."""
    sample = Sample(("id",), tuple((f"row{n}",) for n in range(8)), novelties=("known",) * 7 + ("new",))
    shown = told(main_message(parcel(sample=sample)))
    assert shown.index("row7") < shown.index("row0")
    assert "row5" not in shown


def test_a_resolved_message_shows_no_rows_as_if_they_were_still_there() -> None:
    assert "dsp_9" not in told(main_message(parcel(Reason.RESOLVED, episode=ended(Ending.RESOLVED))))


def test_a_link_to_anything_but_the_web_is_text() -> None:
    assert link("javascript:alert(1)", "x") == "x: javascript:alert(1)"
    assert link("https://a.test/?q=<1>|2&b", "l") == "<https://a.test/?q=%3C1%3E%7C2&amp;b|l>"


@pytest.mark.parametrize(
    "text", [":fire:", "paid:white_check_mark:", ":+1::skin-tone-2:", ":100:", "> quoted", "  > so"]
)
def test_a_text_shows_no_picture_and_quotes_nobody(text: str) -> None:
    """A note that reads `resolved` with a green tick is a note, and looks like one."""
    episode = replace(EPISODE, invariant=text, database=text, owner=text, acknowledged_by=text)
    one = parcel(
        episode=episode, detail=text, description=text, health_sentence=text, links=((text, "https://a.test"),)
    )
    for content in (main_message(one), reply(one)):
        assert problems_of({"text": content.text, "blocks": list(content.blocks)}) == []


@pytest.mark.parametrize("text", ["12:30:00Z", "ratio 3:100 of 5:7:9", "a: b: c", "x > y", "urn::x", "http://a:80/b"])
def test_an_ordinary_text_stays_letter_by_letter(text: str) -> None:
    """What is shown can be copied."""
    assert html.unescape(fitted(text, 200)) == text


def test_code_cannot_be_left_and_control_letters_are_seen() -> None:
    """A value can neither end its block nor turn the writing around."""
    assert "`" not in code("a```b")
    assert code("a\nb\u202ec\x00") == "a\\nb\\u202ec\\x00"


def test_nobody_is_called_by_a_value() -> None:
    assert escape("<!channel> @here & <@U1>") == "&lt;!channel&gt; @\u2060here &amp; &lt;@U1&gt;"


LONG_URL = "https://a.test/" + "&" * 1400

hostile = st.one_of(
    st.text(max_size=400),
    st.text(alphabet="&<>`*_~@here!#|\n\u202e\U000e0001", max_size=400),
    st.sampled_from(["<!channel>" * 90, "&" * 900, "`" * 800, "@everyone " * 90, "\U000e0001" * 300, "<@U1>", ""]),
)


@given(hostile, st.integers(80, 900))
def test_a_cut_text_is_within_its_limit_after_escaping(text: str, limit: int) -> None:
    """Case 099: counted after escaping."""
    for inside_code in (False, True):
        made = fitted(text, limit, inside_code=inside_code)
        assert len(made) <= limit
        assert not made.endswith(("&", "&a", "&am", "&amp", "&l", "&lt", "&g", "&gt"))


@settings(max_examples=60)
@given(
    words=st.tuples(hostile, hostile, hostile, hostile),
    table=st.tuples(st.lists(hostile, min_size=1, max_size=60), st.integers(0, 8), st.one_of(st.none(), hostile)),
    reason=st.sampled_from(list(Reason)),
    links=st.lists(st.tuples(hostile, st.sampled_from([LONG_URL, "ftp://x", "https://b.test/|"])), max_size=8),
)
def test_no_input_breaks_a_limit_or_leaves_a_letter_unescaped(
    words: tuple[str, str, str, str],
    table: tuple[list[str], int, str | None],
    reason: Reason,
    links: list[tuple[str, str]],
) -> None:
    """Design 10: every limit respected, row values escaped; checked by Slack's own models."""
    columns, rows, value = table
    episode = replace(EPISODE, database=words[0] or "d", owner=words[1], count=rows + 3)
    sample = Sample(tuple(columns), tuple((value,) * len(columns) for _ in range(rows)), novelties=("new",) * rows)
    one = parcel(
        reason,
        episode=episode,
        detail=words[2],
        description=words[3],
        health_sentence=words[2],
        sample=sample,
        links=tuple(links),
        runbook_url=words[1],
    )
    for content in (main_message(one), reply(one), Content(text_alone(one), ())):
        assert problems_of({"text": content.text, "blocks": list(content.blocks)}) == []
        assert len(content.text) <= 4_000


def test_a_notice_that_a_waiver_ends_is_neither_good_nor_bad_news() -> None:
    """Semantics 5.4: no rows, no count, no ticket to make of it."""
    notice = replace(EPISODE, subject=Subject.WAIVER, state=AlertState.RESOLVED, ending=Ending.TOLD, ended_at=NOW)
    content = main_message(parcel(Reason.EXPIRING, episode=notice, detail="accept 3 of 2 keys (<b>why</b>) ends"))
    shown = json.dumps(content.blocks, ensure_ascii=False)
    assert "About to count again: one_refund on payments" in shown
    assert "*Expiring*: accept 3 of 2 keys (&lt;b&gt;why&lt;/b&gt;) ends" in shown
    for absent in ("Counted", "Ended", "promote", "dsp_9", "🟢", "🔴"):
        assert absent not in shown
    assert problems_of({"text": content.text, "blocks": list(content.blocks)}) == []
