"""The Slack notifier against a Slack that checks what it is sent (design 10, semantics 7.3, cases 099 to 107)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from casebook import case
from holdtrue.alerting import decide
from holdtrue.errors import SettingsRefused
from holdtrue.ledger import KeyHasher, Tally, compare, judge, with_novelties
from holdtrue.model import (
    AlertState,
    Column,
    Delivered,
    Ending,
    Episode,
    Event,
    Interval,
    Invariant,
    LedgerBefore,
    Mark,
    Message,
    MessageState,
    NotifierConfig,
    Parcel,
    Position,
    Reason,
    Row,
    Run,
    Sample,
    Secret,
    Situation,
    Standing,
    Subject,
    Thread,
    Undelivered,
)
from holdtrue.notifiers import Notifier, build_notifier
from servers.slack import TOKEN, Answer, SlackStub

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
HASHER = KeyHasher(b"a secret of the ledger, for tests")


@pytest.fixture
def slack() -> Iterator[SlackStub]:
    with SlackStub() as stub:
        yield stub
    assert [one for one in stub.problems if one not in getattr(stub, "expected", ())] == []


def bot_of(slack: SlackStub, token: str = TOKEN, channel: str = "#payments") -> Notifier:
    options = (("token", Secret("${SLACK_TOKEN}")), ("channel", channel), ("api_url", slack.base_url))
    return build_notifier(NotifierConfig("oncall", "slack", options), {"SLACK_TOKEN": token})


def hook_of(slack: SlackStub) -> Notifier:
    config = NotifierConfig("oncall", "slack", (("webhook_url", Secret("${HOOK}")),))
    return build_notifier(config, {"HOOK": slack.hook_url})


def parcel_of_rows(name: str, columns: Sequence[str], rows: Sequence[Row], *, safe: bool = True) -> Parcel:
    """What the product makes of a run's rows: tallied, judged, compared, decided."""
    invariant = Invariant(
        name,
        "SELECT 1",
        ("cases",),
        Interval(timedelta(minutes=15)),
        "d1",
        key=(columns[0],),
        columns=frozenset(columns) if safe else frozenset(),
    )
    tally = Tally(invariant, [Column(one) for one in columns], HASHER)
    for row in rows:
        tally.add(row)
    tallied = tally.result()
    compared = compare(LedgerBefore(), tallied, complete=True, now=NOW, secret_id=HASHER.secret_id, timezone="UTC")
    judged = judge(invariant, tallied, failure=None, complete=True)
    run = Run(
        name,
        "cases",
        "d1",
        NOW,
        NOW,
        judged.outcome,
        id=1,
        counted=tallied.counted,
        new=compared.new,
        position=Position("r1", NOW, freshness_proven=True),
    )
    decision = decide(run, Situation(Standing(name, "cases", since=NOW)), invariant, NOW)
    [change] = decision.changes
    sample = with_novelties(tallied.sample, compared)
    return parcel(replace(change.episode, id=12), change.events[-1].reason or Reason.FIRED, sample=sample)


def parcel(
    episode: Episode, reason: Reason, *, detail: str = "", sample: Sample | None = None, thread: Thread | None = None
) -> Parcel:
    return Parcel(
        message=Message(1, episode.id, episode.events, "oncall", reason, MessageState.PENDING, NOW),
        event=Event(episode.events, reason.value, NOW, reason, count=episode.count, detail=detail, episode=episode.id),
        episode=episode,
        description="",
        sample=sample,
        runbook_url="",
        links=(),
        page_url="http://127.0.0.1:8080/alerts/12",
        now=NOW,
        thread=thread,
    )


EPISODE = Episode(
    "one_refund",
    "payments",
    Subject.VIOLATION,
    AlertState.FIRING,
    NOW,
    "d1",
    "critical",
    "",
    id=12,
    fired_at=NOW,
    count=1,
    peak=1,
    events=1,
)
RESOLVED = replace(
    EPISODE, state=AlertState.RESOLVED, ending=Ending.RESOLVED, ended_at=NOW + timedelta(hours=1), count=0, events=2
)


def thread_of(result: Delivered | Undelivered) -> Thread:
    assert isinstance(result, Delivered), result
    assert result.thread is not None
    return result.thread


@pytest.mark.parametrize("build", [bot_of, hook_of])
def test_case_099_forty_long_rows_arrive_within_every_limit(slack: SlackStub, build: Any) -> None:
    """Case 099: cut to the limits after escaping, with "+N more"; the count is in the message."""
    rows = [(str(number), "Überlänge & <b> " * 60) for number in range(1, 41)]
    result = build(slack).deliver(parcel_of_rows("long_rows", ("id", "body"), rows))
    assert isinstance(result, Delivered)
    [message] = slack.messages
    assert "Counted\n40" in message.seen.replace("*", "")
    assert "+35 more" in message.seen
    assert "…" in message.seen


@pytest.mark.parametrize("build", [bot_of, hook_of])
def test_case_101_no_value_calls_anybody(slack: SlackStub, build: Any) -> None:
    """Case 101: shown literally; escaped in blocks, fallback and names (the stub refuses a live mention)."""
    rows = [("1", "<!channel> hi"), ("2", "<@U0123ABCD> & <#C012|x>"), ("3", "@here *bold* _it_ ~s~")]
    one = parcel_of_rows("nick_markup", ("id", "n"), rows)
    one = replace(one, episode=replace(one.episode, database="<!here> & co"), description="<!everyone> @channel *x*")
    assert isinstance(build(slack).deliver(one), Delivered)
    [message] = slack.messages
    for value in ("<!channel> hi", "<@U0123ABCD> & <#C012|x>", "@here *bold* _it_ ~s~", "<!here> & co"):
        assert value in message.seen
    assert all(one not in repr(slack.calls) for one in ("<!channel>", "<@", "<#"))


@pytest.mark.parametrize("build", [bot_of, hook_of])
def test_case_105_nothing_unfolds(slack: SlackStub, build: Any) -> None:
    """Case 105: unfurl_links and unfurl_media are false in every post (the stub checks it too)."""
    rows = [("1", "https://example.test/one-time?token=abc")]
    assert isinstance(build(slack).deliver(parcel_of_rows("hook_urls", ("id", "u"), rows)), Delivered)
    [(_, payload)] = slack.calls
    assert payload["unfurl_links"] in (False, "0")
    assert payload["unfurl_media"] in (False, "0")
    assert "https://example.test/one-time?token=abc" in slack.messages[0].seen


def test_case_107_rows_that_differ_look_different(slack: SlackStub) -> None:
    """Case 107: ids whole; what must be cut keeps apart what differs."""
    rows: list[Row] = [
        ("c4b1efc4b963cb97c101-aaaa", "https://app.example.test/" + "x" * 400 + "1" + "y" * 400),
        ("c4b1efc4b963cb97c101-bbbb", "https://app.example.test/" + "x" * 400 + "2" + "y" * 400),
    ]
    assert isinstance(bot_of(slack).deliver(parcel_of_rows("long_ids", ("id", "u"), rows)), Delivered)
    seen = slack.messages[0].seen
    assert "c4b1efc4b963cb97c101-aaaa" in seen
    assert "c4b1efc4b963cb97c101-bbbb" in seen
    cut = [line for line in seen.splitlines() if line.startswith("u: ")]
    assert len(set(cut)) == 2


def test_hashed_values_never_reach_slack(slack: SlackStub) -> None:
    """Semantics 4.4: what is not declared safe is a token."""
    one = parcel_of_rows("masked", ("id", "mail"), [("7041", "ada@example.test")], safe=False)
    assert isinstance(bot_of(slack).deliver(one), Delivered)
    assert "ada@example.test" not in repr(slack.calls)
    assert "7041" not in repr(slack.calls)
    assert "h:" in slack.messages[0].seen


def test_one_message_per_episode_edited_and_answered(slack: SlackStub) -> None:
    """Design 10: one message, edited as the episode goes on, its events in the thread."""
    bot = bot_of(slack)
    thread = thread_of(bot.deliver(parcel(EPISODE, Reason.FIRED, detail="1 counted")))
    worse = replace(EPISODE, count=101, peak=101, events=2)
    bot.deliver(parcel(worse, Reason.WORSENED, detail="from 1 to 101", thread=thread))
    assert (
        thread_of(bot.deliver(parcel(RESOLVED, Reason.RESOLVED, detail="held in 1 complete run", thread=thread)))
        == thread
    )
    [message] = slack.conversation()
    assert message.edits == 2
    assert "Holds again after 1h" in message.seen
    first, second = slack.replies(message)
    assert "from 1 to 101" in first.seen
    assert first.broadcast
    assert "*Resolved*: held in 1 complete run" in second.seen
    assert not second.broadcast


def test_a_webhook_adds_a_message_for_every_event_and_says_what_it_cannot(slack: SlackStub) -> None:
    hook = hook_of(slack)
    assert hook.deliver(parcel(EPISODE, Reason.FIRED)) == Delivered()
    assert hook.deliver(parcel(RESOLVED, Reason.RESOLVED)) == Delivered()
    assert [one.by_webhook for one in slack.messages] == [True, True]
    assert "cannot edit" in hook.describe_limits()
    assert bot_of(slack).describe_limits() == ""
    assert isinstance(hook.redraw(parcel(EPISODE, Reason.FIRED)), Delivered)
    assert len(slack.messages) == 2


@pytest.mark.parametrize(
    ("answer", "mendable", "word"),
    [
        (Answer(429, "ratelimited", retry_after=7), True, "pause"),
        (Answer(500), True, "500"),
        (Answer(503, retry_after=3), True, "503"),
        (Answer(200, "channel_not_found"), False, "channel_not_found"),
        (Answer(200, "invalid_auth"), True, "refused the login: invalid_auth"),
        (Answer(403), True, "refused the login: "),
        (Answer(404), False, "404"),
        (Answer(200, "fatal_error"), True, "fatal_error"),
        (Answer(200, "Oh no: xoxb-leaked!"), True, "200"),
    ],
)
@pytest.mark.parametrize("kind", ["bot", "hook"])
def test_refusals_are_data_that_say_whether_a_retry_can_mend_them(
    slack: SlackStub, kind: str, answer: Answer, mendable: bool, word: str
) -> None:
    """Errors by what can be done about them; only Slack's own short words are repeated."""
    slack.answer_next(answer)
    result = (bot_of if kind == "bot" else hook_of)(slack).deliver(parcel(EPISODE, Reason.FIRED))
    assert isinstance(result, Undelivered)
    assert result.permanent is not mendable
    assert result.retry_after == answer.retry_after
    assert word in result.sentence
    assert "leaked" not in result.sentence
    assert slack.messages == []


@pytest.mark.parametrize(
    ("status", "error"), [(403, "action_prohibited"), (404, "no_team"), (410, "channel_is_archived")]
)
def test_a_dead_webhook_is_not_tried_for_ever(slack: SlackStub, status: int, error: str) -> None:
    slack.answer_next(Answer(status, error))
    result = hook_of(slack).deliver(parcel(EPISODE, Reason.FIRED))
    assert isinstance(result, Undelivered)
    assert result.permanent


@pytest.mark.parametrize("build", [bot_of, hook_of])
def test_blocks_that_slack_refuses_become_text_and_the_alert_arrives(slack: SlackStub, build: Any) -> None:
    """Case 099: an alert is never lost to its looks; an edit takes the old blocks away."""
    notifier = build(slack)
    slack.refuse_blocks = True
    result = notifier.deliver(parcel(EPISODE, Reason.FIRED, detail="1 counted"))
    assert isinstance(result, Delivered)
    assert "one_refund on payments: 1 counted" in slack.messages[0].seen
    assert "holdtrue promote 12" in slack.messages[0].seen
    if result.thread is not None:
        slack.refuse_blocks = False
        notifier.deliver(parcel(EPISODE, Reason.REMINDER, thread=result.thread))
        slack.refuse_blocks = True
        notifier.deliver(parcel(RESOLVED, Reason.RESOLVED, thread=result.thread))
        assert slack.conversation()[0].blocks == []
        assert "Resolved" in slack.conversation()[0].seen


def test_a_deleted_message_is_posted_anew(slack: SlackStub) -> None:
    """Somebody deleted it: the next event starts a new message instead of failing for ever."""
    result = bot_of(slack).deliver(parcel(RESOLVED, Reason.RESOLVED, thread=Thread("C0PAYMENTS", "1600000000.000100")))
    assert thread_of(result).reference != "1600000000.000100"
    assert isinstance(result, Delivered)
    assert "posted anew" in result.note
    assert "Holds again" in slack.conversation()[0].seen


@pytest.mark.parametrize("how", ["channel_not_found", "is_archived", "not_in_channel"])
def test_an_alert_whose_channel_is_gone_goes_on_in_the_channel_that_is_configured_now(
    slack: SlackStub, how: str
) -> None:
    """An event is told though the message that it belongs to can neither be edited nor answered any more (semantics 7.3)."""
    thread = thread_of(bot_of(slack, channel="#old").deliver(parcel(EPISODE, Reason.FIRED)))
    slack.close("#old", how)
    moved = bot_of(slack, channel="#new")
    worsened = moved.deliver(parcel(replace(EPISODE, events=2), Reason.WORSENED, detail="from 1 to 9", thread=thread))
    anew = thread_of(worsened)
    assert isinstance(worsened, Delivered)
    assert "posted anew" in worsened.note
    assert anew.channel == "C0NEW"
    assert thread_of(moved.deliver(parcel(RESOLVED, Reason.RESOLVED, thread=anew))) == anew
    first, second = slack.conversation()
    assert "Violated" in first.seen
    assert "Holds again" in second.seen
    assert second.channel == "C0NEW"


def test_an_answer_in_a_thread_that_is_refused_is_told_in_the_channel(slack: SlackStub) -> None:
    """The edit was taken, and whom it concerns was not told yet."""
    bot = bot_of(slack)
    thread = thread_of(bot.deliver(parcel(EPISODE, Reason.FIRED)))
    slack.answer_next(Answer(until=taken()), Answer(200, "restricted_action"))
    worsened = bot.deliver(parcel(replace(EPISODE, events=2), Reason.WORSENED, thread=thread))
    assert thread_of(worsened) != thread
    assert len(slack.conversation()) == 2


def taken() -> threading.Event:
    """Nothing to wait for."""
    done = threading.Event()
    done.set()
    return done


@pytest.mark.parametrize("error", ["channel_not_found", "is_archived", "is_inactive", "not_in_channel"])
def test_a_channel_that_refuses_a_fresh_message_is_a_failure_that_nobody_waits_for(
    slack: SlackStub, error: str
) -> None:
    slack.answer_next(Answer(200, "is_inactive"), Answer(200, error))
    result = bot_of(slack).deliver(parcel(RESOLVED, Reason.RESOLVED, thread=Thread("C0OLD", "1600000000.000100")))
    assert isinstance(result, Undelivered)
    assert result.permanent
    assert error in result.sentence


def test_redrawing_edits_and_tells_nobody(slack: SlackStub) -> None:
    """Semantics 7.3: edits converge without another message."""
    bot = bot_of(slack)
    thread = thread_of(bot.deliver(parcel(EPISODE, Reason.FIRED)))
    assert isinstance(bot.redraw(parcel(RESOLVED, Reason.RESOLVED, thread=thread)), Delivered)
    assert len(slack.messages) == 1
    assert "Holds again" in slack.messages[0].seen
    assert isinstance(bot.redraw(parcel(RESOLVED, Reason.RESOLVED)), Delivered)


def test_no_token_or_address_is_in_any_error_or_log(
    slack: SlackStub, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """House rule and semantics 1.7: secrets are never printed, not even by the library."""
    caplog.set_level(logging.DEBUG)
    slack.answer_next(Answer(500), Answer(500), Answer(200, "invalid_auth"))
    bot, hook = bot_of(slack), hook_of(slack)
    results = [bot.deliver(parcel(EPISODE, Reason.FIRED)), hook.deliver(parcel(EPISODE, Reason.FIRED))]
    results.append(bot.deliver(parcel(EPISODE, Reason.FIRED)))
    slack.__exit__()
    results += [bot.deliver(parcel(EPISODE, Reason.FIRED)), hook.deliver(parcel(EPISODE, Reason.FIRED))]
    assert all(isinstance(one, Undelivered) for one in results)
    said = repr(results) + caplog.text + repr(bot.__dict__) + repr(hook.__dict__)
    assert TOKEN not in said
    assert "secret-of-the-hook" not in said
    assert "did not answer" in repr(results[-1])
    assert capfd.readouterr() == ("", "")


def test_a_secret_is_read_anew_at_each_message(slack: SlackStub) -> None:
    """Semantics 1.7: tokens rotate."""
    environ = {"SLACK_TOKEN": "xoxb-of-yesterday"}
    options = (("token", Secret("${SLACK_TOKEN}")), ("channel", "#payments"), ("api_url", slack.base_url))
    bot = build_notifier(NotifierConfig("oncall", "slack", options), environ)
    assert isinstance(bot.deliver(parcel(EPISODE, Reason.FIRED)), Undelivered)
    environ["SLACK_TOKEN"] = TOKEN
    assert isinstance(bot.deliver(parcel(EPISODE, Reason.FIRED)), Delivered)
    del environ["SLACK_TOKEN"]
    result = bot.deliver(parcel(EPISODE, Reason.FIRED))
    assert isinstance(result, Undelivered)
    assert "SLACK_TOKEN" in result.sentence


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("slack", ()),
        ("slack", (("token", Secret("${T}")),)),
        ("slack", (("token", Secret("${T}")), ("channel", "#a"), ("webhook_url", Secret("${T}")))),
        ("slack", (("token", Secret("${MISSING}")), ("channel", "#a"))),
        ("pigeon", ()),
    ],
)
def test_a_notifier_that_cannot_work_is_refused_at_load(kind: str, options: Any) -> None:
    with pytest.raises(SettingsRefused):
        build_notifier(NotifierConfig("oncall", kind, options), {"T": "t"})


def test_a_repeat_says_that_it_may_be_one(slack: SlackStub) -> None:
    """Semantics 7.3: after a crash between sending and marking."""
    one = parcel(EPISODE, Reason.FIRED)
    bot_of(slack).deliver(replace(one, message=replace(one.message, marks=(Mark.MAY_BE_A_REPEAT,))))
    assert "may be a repeat" in slack.messages[0].seen


def test_the_cases_here_are_the_cases_of_the_book() -> None:
    """The rows above are those of the cases' own setup."""
    for number, name in (("099", "long_rows"), ("101", "nick_markup"), ("105", "hook_urls"), ("107", "long_ids")):
        assert case(number).raw["invariant"]["name"] == name


@pytest.mark.parametrize("build", [bot_of, hook_of])
def test_no_proxy_is_respected(slack: SlackStub, build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address of our own network is not asked of the company's proxy."""
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    assert isinstance(build(slack).deliver(parcel(EPISODE, Reason.FIRED)), Delivered)
