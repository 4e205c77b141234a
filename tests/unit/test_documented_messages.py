"""Every reason has its example in docs/alerts.md, and each is what the code writes: decided, put into words, and laid out."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from histories import MINUTE, History
from holdtrue.alerting import acknowledge, unacknowledge, verdict, withdraw
from holdtrue.model import (
    Accept,
    Decision,
    Former,
    Message,
    MessageState,
    Parcel,
    Reason,
    Sample,
    Subject,
)
from holdtrue.notifiers.slack_blocks import Block, main_message
from holdtrue.notifiers.webhook_body import body_of

PAGE = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()
DOCUMENTED = dict(re.findall(r"^### `(\w+)`\n\n```\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE))
HOURS = timedelta(hours=1)


def fired(story: History) -> None:
    story.held()
    story.violated(1)


def worsened(story: History) -> None:
    fired(story)
    story.violated(101, new=100)


def reminder(story: History) -> None:
    fired(story)
    story.violated(1, after=24 * HOURS)
    story.wait(MINUTE)


def resolved(story: History) -> None:
    worsened(story)
    story.held(after=110 * MINUTE)


def reopened(story: History) -> None:
    resolved(story)
    story.violated(2)


def redefined(story: History) -> None:
    story.violated(7)
    story.rule = replace(story.rule, definition="d2")
    story.held(former=Former("generation 8 (3f2a9c81d0e4)", violated=True, counted=7))


def withdrawn(story: History) -> None:
    story.violated(7)
    decision = withdraw(story.situation, story.now)
    assert decision is not None
    story.take(decision)


def expiring(story: History) -> None:
    story.held(returned=2, waived=2)
    accept = Accept(
        id=3,
        invariant="gate_open",
        database="payments",
        reason="refunded twice in good will",
        accepted_by="alice",
        accepted_at=story.now,
        until=story.now + 48 * HOURS,
        keys=2,
        secret_id="s1",
        key_columns=("id",),
        timezone="UTC",
        matches=True,
    )
    story.held(returned=2, waived=2, after=24 * HOURS)
    story.situation = replace(story.situation, accepts=(accept,))
    story.wait(MINUTE)


def unchecked(story: History) -> None:
    story.held()
    story.errored()
    story.wait(16 * MINUTE)


def recovered(story: History) -> None:
    unchecked(story)
    story.violated(3, after=90 * MINUTE)


def acknowledged(story: History) -> None:
    fired(story)
    change = acknowledge(story.alert, "alice (token)", "a bad deploy", story.now)
    story.take(Decision(story.situation.standing, (change,)))


def unacknowledged(story: History) -> None:
    acknowledged(story)
    change = unacknowledge(story.alert, "bob (token)", story.now)
    story.take(Decision(story.situation.standing, (change,)))


STORIES: dict[Reason, Callable[[History], None]] = {
    Reason(told.__name__): told
    for told in (
        *(fired, worsened, reminder, resolved, reopened, redefined, withdrawn, expiring),
        *(unchecked, recovered, acknowledged, unacknowledged),
    )
}


def parcel_of(reason: Reason, notifier: str = "hooks") -> Parcel:
    """What a notifier would be given of the story's last event with this reason."""
    story = History()
    STORIES[reason](story)
    event = next(one for one in reversed(story.events) if one.reason is reason)
    episode = story.episodes[event.episode]
    number = episode.id + 11
    episode = replace(
        episode,
        id=number,
        invariant="one_settled_refund_per_dispute",
        follows=episode.follows + 11 if episode.follows is not None else None,
    )
    now = story.now + timedelta(seconds=2)
    violated = episode.subject is Subject.VIOLATION
    rows = (("dsp_9", "h:3fa9c1d2"), ("dsp_12", "h:81c0aa4e"))[: episode.count]
    sample = Sample(("dispute_id", "mail"), rows, novelties=("new",) * len(rows), masked=frozenset({"mail"}))
    known = story.situation
    return Parcel(
        message=Message(1, number, event.number, notifier, reason, MessageState.PENDING, event.at),
        event=replace(event, episode=number),
        episode=episode,
        description="Every dispute has at most one settled refund.",
        sample=sample if violated else None,
        runbook_url="https://runbooks.example.com/refunds",
        links=(),
        page_url=f"https://holdtrue.example.com/alerts/{number}",
        now=now,
        health_sentence=verdict(known.standing, known.alert, story.rule, now).sentence
        if reason is not Reason.WITHDRAWN
        else "",
    )


def screen(blocks: tuple[Block, ...]) -> str:
    """What a person reads in Slack."""
    lines: list[str] = []
    for block in blocks:
        if "fields" in block:
            lines.append(" · ".join(one["text"].replace("\n", " ") for one in block["fields"]))
        else:
            lines += [one["text"] for one in block.get("elements", ())] or [block["text"]["text"]]
    text = "\n".join(lines)
    text = re.sub(
        r"```(.*?)```", lambda row: "\n" + re.sub("^", "  ", row[1], flags=re.MULTILINE), text, flags=re.DOTALL
    )
    text = re.sub(r"<[^|>]+\|([^>]+)>", r"\1", text)
    plain = re.sub(r"\*|`|(?<!\w)_(?=\w)|(?<=\w)_(?!\w)", "", text)
    return html.unescape(re.sub(r" +$", "", plain, flags=re.MULTILINE))


def test_every_reason_has_its_example() -> None:
    assert set(DOCUMENTED) == {one.value for one in Reason}


@pytest.mark.parametrize("reason", Reason)
def test_the_example_is_what_slack_would_show(reason: Reason) -> None:
    assert DOCUMENTED[reason.value] == screen(main_message(parcel_of(reason)).blocks)


def test_the_example_of_a_webhook_is_what_it_would_be_sent() -> None:
    [example] = re.findall(r"```json\n(\{\"version\": 1, \"key\": \"\d.*?)```", PAGE, re.DOTALL)
    assert json.loads(example) == json.loads(body_of(parcel_of(Reason.FIRED)))
