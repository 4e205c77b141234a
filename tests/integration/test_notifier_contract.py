"""What every kind of notifier keeps to (semantics 1.7, 4.4, 7.3): one contract, each against a stub that checks it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdtrue.errors import SettingsRefused
from holdtrue.model import (
    Delivered,
    Mark,
    NotifierConfig,
    Outcome,
    Reason,
    Sample,
    Secret,
    Undelivered,
)
from holdtrue.notifiers import KINDS as OFFERED
from holdtrue.notifiers import Notifier, build_notifier, build_state_keeper, limits_of
from scenes.told import EPISODE, HOSTILE, KINDS, RESOLVED, UNCHECKED, Stand, config_of, notifier_at, parcel, standing
from servers.stalling import stalling
from telling import Service

POSTING = tuple(one for one in KINDS if one != "email")
"""The kinds that speak HTTP; what e-mail does in their place stands in test_email.py."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def stand(kind: str) -> Iterator[Stand]:
    with standing(kind) as made:
        yield made
        assert made.problems() == []


def test_every_kind_keeps_the_contract() -> None:
    """A new kind has to be here too."""
    assert {one.partition(" ")[0] for one in KINDS} == set(OFFERED)


def test_it_tells_what_happened_where_and_what_the_verdict_is(stand: Stand) -> None:
    assert isinstance(stand.notifier.deliver(parcel(sample=Sample(("id",), (("dsp_9",),)))), Delivered)
    [told] = stand.told()
    for word in ("one_refund", "payments", "critical", "1 counted", "violated, 2s ago", "dsp_9", "one settled refund"):
        assert word in told
    assert "alerts/12" in told or stand.notifier.kind == "pagerduty"


@pytest.mark.parametrize("trouble", ["busy", "pause", "lost"])
def test_a_failure_that_passes_is_tried_again(stand: Stand, trouble: Any) -> None:
    stand.trouble(trouble)
    result = stand.notifier.deliver(parcel())
    assert isinstance(result, Undelivered)
    assert not result.permanent
    if trouble == "pause" and stand.notifier.kind != "email":
        assert result.retry_after == 7
    if trouble == "lost" and stand.notifier.kind != "email":
        assert "it may have arrived" in result.sentence
    assert isinstance(stand.notifier.deliver(parcel()), Delivered)


def test_what_no_retry_can_mend_says_so(stand: Stand) -> None:
    stand.trouble("refused")
    result = stand.notifier.deliver(parcel())
    assert isinstance(result, Undelivered)
    assert result.permanent
    assert stand.told() == []


@pytest.mark.parametrize("kind", POSTING)
def test_a_login_that_is_refused_is_mended_by_a_new_secret_and_so_is_tried_again(kind: str) -> None:
    """Semantics 1.7: a token that was changed on one side only loses no message."""
    with standing(kind) as stand:
        stand.trouble("login")
        result = stand.notifier.deliver(parcel())
        assert isinstance(result, Undelivered)
        assert (result.login, result.permanent) == (True, False)
        assert "refused the login" in result.sentence
        assert isinstance(stand.notifier.deliver(parcel()), Delivered)


def test_nobody_there_is_no_answer_and_nothing_has_arrived(kind: str) -> None:
    """A connection refused is surely not a message told: the next one is no repeat."""
    with standing(kind) as stand:
        pass
    result = stand.notifier.deliver(parcel())
    assert isinstance(result, Undelivered)
    assert not result.permanent
    assert "did not answer" in result.sentence
    assert "may have arrived" not in result.sentence


def test_no_secret_is_in_any_failure_log_or_repr(
    kind: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Semantics 1.7: secrets are never printed, not even by a library; nor is what the other side answered."""
    caplog.set_level(logging.DEBUG)
    with standing(kind) as stand:
        for trouble in ("busy", "refused", "lost", "pause"):
            stand.trouble(trouble)
        results = [stand.notifier.deliver(parcel()) for _ in range(5)]
    results.append(stand.notifier.deliver(parcel()))
    # The stub of a mail server logs what it says itself.
    logged = "\n".join(one.getMessage() for one in caplog.records if one.name != "mail.log")
    said = repr(results) + logged + repr(stand.notifier) + repr(vars(stand.notifier)) + "".join(capfd.readouterr())
    for secret in (*stand.secrets, "no secret"):
        assert secret not in said


@pytest.mark.parametrize("kind", POSTING)
def test_a_secret_is_read_anew_at_each_message_and_one_that_is_gone_is_a_failure(kind: str) -> None:
    """Semantics 1.7: they rotate."""
    environ = {"TOKEN": "x", "HOOK": "http://127.0.0.1:9/", "URL": "http://127.0.0.1:9/", "SIGN": "x", "KEY": "x"}
    notifier = notifier_at(kind, 9, environ=environ)
    environ.clear()
    result = notifier.deliver(parcel())
    assert isinstance(result, Undelivered)
    assert "secret cannot be read" in result.sentence


def test_hostile_texts_and_values_stay_text_and_within_every_limit(stand: Stand) -> None:
    """House: names, texts and values are untrusted; the stubs check escaping, limits and headers."""
    for place, text in enumerate(HOSTILE):
        episode = replace(EPISODE, database=text, invariant=text, owner=text, acknowledged_by=text, events=place + 1)
        sample = Sample((text, "id"), tuple((text, str(number)) for number in range(40)), masked=frozenset({text}))
        links = ((text, "javascript:alert(1)"), (text, "https://example.com/?a=1&b=<x>"), *((text, text),) * 20)
        told = parcel(
            replace(episode, count=40),
            detail=text,
            sample=sample,
            description=text,
            health_sentence=text,
            runbook_url=text,
            page_url=text,
            links=links,
        )
        result = stand.notifier.deliver(told)
        assert isinstance(result, Delivered), result
    assert len(stand.told()) == len(HOSTILE)
    for told_text in stand.told():
        assert "\x1b" not in told_text or stand.notifier.kind == "webhook"
        assert "\ud800" not in told_text
    assert "more" in stand.told()[0]


def test_rows_stay_masked(stand: Stand) -> None:
    """Semantics 4.4: a notifier shows the sample that it is given, tokens and all, and nothing beside it."""
    sample = Sample(("mail",), (("h:3fa9c1d2",),), masked=frozenset({"mail"}))
    assert isinstance(stand.notifier.deliver(parcel(sample=sample)), Delivered)
    assert "h:3fa9c1d2" in stand.told()[0]


def test_an_end_is_told_with_its_honest_word(stand: Stand) -> None:
    first = stand.notifier.deliver(parcel())
    assert isinstance(first, Delivered)
    detail = "it left the catalog with 7 counted when last seen; no run saw it hold"
    withdrawn = parcel(RESOLVED, Reason.WITHDRAWN, detail=detail, thread=first.thread)
    assert isinstance(stand.notifier.deliver(withdrawn), Delivered)
    assert "Withdrawn, which proves nothing" in stand.told()[-1]
    assert "no run saw it hold" in stand.told()[-1]


def test_nobody_knowing_is_told_as_such(stand: Stand) -> None:
    unchecked = parcel(UNCHECKED, Reason.UNCHECKED, detail="no good run for 31m")
    assert isinstance(stand.notifier.deliver(unchecked), Delivered)
    assert "Unchecked" in stand.told()[0]
    assert "no good run for 31m" in stand.told()[0]


def test_a_repeat_and_a_test_are_marked(stand: Stand) -> None:
    """Semantics 7.3."""
    one = parcel()
    one = replace(one, message=replace(one.message, marks=(Mark.MAY_BE_A_REPEAT,)))
    one = replace(one, event=replace(one.event, marks=(Mark.TEST,)))
    assert isinstance(stand.notifier.deliver(one), Delivered)
    assert "may be a repeat" in stand.told()[0]
    assert "nothing is violated" in stand.told()[0]


def test_a_redraw_tells_nobody(stand: Stand) -> None:
    """Semantics 7.3: it edits, resolves again, or does nothing; it never adds a message."""
    first = stand.notifier.deliver(parcel())
    assert isinstance(first, Delivered)
    before = len(stand.told())
    redrawn = stand.notifier.redraw(parcel(RESOLVED, Reason.RESOLVED, thread=first.thread))
    assert isinstance(redrawn, Delivered)
    assert len(stand.told()) == before or stand.notifier.kind == "pagerduty"


def test_what_it_cannot_do_is_said_without_a_secret(stand: Stand) -> None:
    said = stand.notifier.describe_limits()
    assert limits_of(config_of(stand.kind, 9)) == said
    assert bool(said) == (not (stand.notifier.kind == "slack" and hasattr(stand.notifier, "_token")))
    assert all(secret not in said for secret in stand.secrets)


@pytest.mark.parametrize(
    ("first", "drip"),
    [
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
        (b"", b"220-"),
        (b"220-hello\r\n", b"220-x\r\n"),
    ],
    ids=["silence", "a body for ever", "headers for ever", "half a line for ever", "lines for ever"],
)
def test_the_time_limit_is_kept_whoever_hangs_or_drips(kind: str, first: bytes, drip: bytes) -> None:
    """A server that sends a byte now and then resets no clock of ours; the call ends, and is no success."""
    with stalling(first, drip) as port:
        notifier = short(notifier_at(kind, port))
        done = threading.Event()
        results: list[Any] = []

        def deliver() -> None:
            results.append(notifier.deliver(parcel()))
            done.set()

        threading.Thread(target=deliver, daemon=True).start()
        assert done.wait(20)
    [result] = results
    assert isinstance(result, Undelivered)
    assert not result.permanent


def short(notifier: Any) -> Notifier:
    """The same with a time limit that a test can wait for."""
    if notifier.kind == "email":
        notifier._server = replace(notifier._server, time_limit=0.3)
    else:
        notifier._posting = replace(notifier._posting, time_limit=0.3)
    made: Notifier = notifier
    return made


def test_an_alertmanager_that_drips_ends_its_push_too() -> None:
    """Each member has a thread of its own, which must not be taken for ever."""
    with stalling(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x") as port:
        config = NotifierConfig("am", "alertmanager", (("urls", (Secret(f"http://127.0.0.1:{port}"),)),))
        [member] = build_state_keeper(config, {}).members
        member._posting = replace(member._posting, time_limit=0.3)
        done = threading.Event()
        threading.Thread(target=lambda: (member.push([]), done.set()), daemon=True).start()
        assert done.wait(20)


@pytest.mark.parametrize("kind", POSTING)
def test_a_redirect_is_never_followed(kind: str) -> None:
    """It would carry a token, or rows, to whoever answered."""
    answer = b"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:%d/elsewhere\r\nContent-Length: 0\r\n\r\n"
    with standing("webhook") as elsewhere, stalling(answer % port_of(elsewhere)) as port:
        result = notifier_at(kind, port).deliver(parcel())
        assert isinstance(result, Undelivered)
        assert result.permanent
        assert "redirects" in result.sentence
        assert elsewhere.calls() == 0


def port_of(stand: Stand) -> int:
    notifier: Any = stand.notifier
    return int(notifier._url().partition("127.0.0.1:")[2].partition("/")[0])


def test_messages_of_an_episode_arrive_in_order_through_a_failure(kind: str, tmp_path: Path) -> None:
    """Semantics 7.3: what was owed later waits; one episode never overtakes itself."""
    with standing(kind) as stand:
        service = Service(tmp_path, ("one_refund",), {"told": stand.notifier})
        try:
            delivery = service.delivery()
            for counted in (1, 10):
                stand.trouble("busy")
                service.run(counted=counted)
                for _ in range(2):
                    delivery.round()
                    assert delivery.wait_until_idle(20)
                    service.clock.forward(3)
            service.run(outcome=Outcome.HELD)
            delivery.round()
            assert delivery.wait_until_idle(20)
            assert service.states() == ["fired sent", "worsened sent", "resolved sent"]
            told = "\n".join(stand.told())
            if kind != "slack bot":  # whose first message has been edited to the newest state
                assert told.index("Fired") < told.index("Worsened") < told.rindex("Resolved")
        finally:
            service.close()


def test_one_that_hangs_delays_no_other(kind: str, tmp_path: Path) -> None:
    """Design 3.9, case 103: each has a thread of its own."""
    with stalling() as port, standing("webhook", "other") as other:
        service = Service(tmp_path, ("one_refund",), {"told": notifier_at(kind, port), "other": other.notifier})
        try:
            service.run()
            delivery = service.delivery()
            assert delivery.round() == 2
            patience = threading.Event()
            for _ in range(400):
                if other.told():
                    break
                patience.wait(0.05)
            assert len(other.told()) == 1
            assert sorted(service.states())[0] == "fired pending"
        finally:
            service.close()


@pytest.mark.parametrize("missing", ["webhook", "pagerduty", "email"])
def test_one_that_cannot_work_is_refused_at_load(missing: str) -> None:
    with pytest.raises(SettingsRefused):
        build_notifier(NotifierConfig("told", missing, ()), {})
