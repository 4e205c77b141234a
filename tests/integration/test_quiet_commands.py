"""``holdtrue alerts silence|unsilence|silences|ack|unack`` and ``deliveries``, through the store and through a service."""

from __future__ import annotations

import json
import os
import pwd
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from holdtrue.cli import run as command
from holdtrue.model import CANARY_NAME, Catalog, Delivered, Undelivered
from scenes import EVERY, HELD, Found, Scene, catalog_of, invariant
from scenes.canary import Rounds, with_canary
from scenes.seeing import THREE
from scenes.serving import Elsewhere, served, web_service

HOLDTRUE = """
store: {url: "sqlite:///store.db"}
databases:
  payments:
    replicas: [{name: file, url: "sqlite:///refunds.db"}]
    freshness: none
    allow_primary: true
notifiers:
  oncall: {kind: slack, webhook_url: "${HOOK}"}
"""
INVARIANTS = """
version: 1
defaults: {database: payments, owner: payments-oncall}
invariants:
  - {name: refunds, sql: SELECT id FROM refunds, tags: [money]}
  - {name: balances, sql: SELECT id FROM balances}
"""
PAIR = ("refunds", "payments")


def the_catalog() -> Catalog:
    made = catalog_of([invariant("refunds", tags=("money",)), invariant("balances")])
    return replace(made, texts=(("holdtrue.yaml", HOLDTRUE), ("invariants/all.yaml", INVARIANTS)))


@dataclass
class Desk:
    """Somebody's terminal beside a store where ``refunds`` fires, or before a service that has it."""

    scene: Scene
    capture: pytest.CaptureFixture[str]
    identity: str

    def run(self, line: str) -> tuple[int, str]:
        """The exit code, and all that was printed."""
        code = command(shlex.split(line))
        printed = self.capture.readouterr()
        return code, printed.out + printed.err

    def json(self, line: str) -> dict:
        code, text = self.run(f"{line} --format json")
        assert code == 0, text
        return json.loads(text)


@pytest.fixture(params=["store", "service"])
def desk(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Desk]:
    scene = Scene(tmp_path)
    scene.install(the_catalog())
    scene.look({PAIR: THREE})
    (tmp_path / "holdtrue.yaml").write_text(HOLDTRUE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOK", "https://hooks.example/x")
    monkeypatch.setenv("USER", "alice")
    monkeypatch.delenv("HOLDTRUE_URL", raising=False)
    with ExitStack() as stack:
        if request.param == "service":
            monkeypatch.setenv("HOLDTRUE_URL", stack.enter_context(served(web_service(scene))))
        else:
            freeze_clock(monkeypatch, scene)
        yield Desk(scene, capsys, "loopback" if request.param == "service" else "by store")
        scene.store.close()


def freeze_clock(monkeypatch: pytest.MonkeyPatch, scene: Scene) -> None:
    """The command's own store has the scene's clock: what it writes must lie beside what the scene wrote."""
    from holdtrue.bootstrap import storing
    from holdtrue.store import open_store

    def opened(url: str) -> object:
        return open_store(url, clock=scene.clock)

    monkeypatch.setattr(storing, "open_store", opened)


def test_a_silence_says_what_it_matches_and_is_listed_shown_and_ended(desk: Desk) -> None:
    """Semantics 7.5, 11.1."""
    code, text = desk.run("alerts silence name=refunds --for 2h -m 'migration 41'")
    assert code == 0, text
    assert "silence 1 (name=refunds): in force, until 2026-11-29T03:00:00.000Z" in text
    assert "it matches 1 now, 1 of them with an open alert:" in text
    assert "alert 1" in text
    assert desk.json("alerts silences")["silences"][0]["created_by"] == f"alice ({desk.identity})"
    assert desk.run("alerts silences 1")[1].splitlines()[-1].strip() == "it has withheld nothing"
    desk.scene.pass_time(EVERY)
    desk.scene.look({PAIR: Found(tuple((str(one),) for one in range(9)))})
    shown = desk.run("alerts silences 1")[1]
    assert "refunds" in shown
    assert "firing" in shown
    code, text = desk.run("alerts unsilence 1 --by bob")
    assert (code, f"by bob ({desk.identity})" in text) == (0, True), text
    assert desk.run("alerts silences") == (0, "no silence\n")
    assert "migration 41" in desk.run("alerts silences --all")[1]
    code, text = desk.run("alerts unsilence 1")
    assert (code, "has ended already" in text) == (2, True)
    trail = [(one.who, one.action) for one in desk.scene.store.reads.audit(2)]
    assert trail == [(desk.identity, "unsilence"), (desk.identity, "silence")]


def test_a_preview_silences_nothing(desk: Desk) -> None:
    assert desk.json("alerts silence tag=money --preview")["matched"][0]["invariant"] == "refunds"
    assert desk.run("alerts silence name~x* --preview") == (0, "it matches nothing of the catalog in force now\n")
    assert desk.scene.store.silences.list(ended_too=True) == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("alerts silence name=refunds -m why", "give either --for 2h or --until"),
        ("alerts silence name=refunds -m why --for 1h --until 2030-01-01T00:00:00Z", "give either"),
        ("alerts silence name=refunds --for 1h", "needs a comment"),
        ("alerts silence name=refunds -m why --for soon", "write 90m, 2h, 1d"),
        ("alerts silence name=refunds -m why --for 0s", "no duration"),
        ("alerts silence name=refunds -m why --until 2030-01-01", "no moment with a zone"),
        ("alerts silence name=refunds -m why --until 2020-01-01T00:00:00Z", "before it begins"),
        ("alerts silence refunds -m why --for 1h", "FIELD=VALUE"),
        ("alerts silence name=refund* -m why --for 1h", "name~refund*"),
        ("alerts unsilence 77", "no silence has the number 77"),
        ("alerts silences 77", "no silence has the number 77"),
        ("alerts ack balances", "no open alert of balances"),
        ("alerts unack refunds", "nobody has acknowledged alert 1"),
    ],
)
def test_what_cannot_be_is_refused_with_2_and_the_remedy(desk: Desk, line: str, said: str) -> None:
    code, text = desk.run(line)
    assert (code, said in text) == (2, True), text


def test_an_alert_is_acknowledged_shown_and_given_back(desk: Desk) -> None:
    """Semantics 7.4."""
    code, text = desk.run("alerts ack refunds --note 'a bad deploy'")
    whose = f"alice ({desk.identity})"
    assert (code, text) == (0, f"alert 1 (refunds on payments): {whose} has it\n")
    shown = desk.run("alerts show 1")[1]
    assert f"by {whose} at 2026-11-29T01:00:00.000Z: a bad deploy" in shown
    assert f"by {whose}: a bad deploy" in shown
    owed = desk.json("deliveries --alert refunds")["deliveries"]
    assert [one["reason"] for one in owed] == ["acknowledged", "fired"]
    assert desk.run("alerts unack 1 --by bob") == (0, "alert 1 (refunds on payments): nobody has it\n")
    desk.scene.pass_time(EVERY)
    desk.scene.look({PAIR: HELD})
    code, text = desk.run("alerts ack 1")
    assert (code, "alert 1 has ended (resolved)" in text) == (2, True)


def test_an_alert_of_the_canary_is_found_by_its_name_and_else_a_list_that_has_it_is_named(desk: Desk) -> None:
    """Semantics 7.7: the lists of alerts leave it out, so none of them is pointed to."""
    code, text = desk.run(f"alerts show {CANARY_NAME}")
    assert (code, "no open alert of holdtrue_canary" in text) == (2, True)
    assert "alerts list" not in text
    assert f"`holdtrue deliveries --name {CANARY_NAME}`" in text
    declared = HOLDTRUE + "canary: {notify: [oncall]}\n"
    with_it = with_canary(the_catalog(), "oncall")
    texts = (("holdtrue.yaml", declared), ("invariants/all.yaml", INVARIANTS))
    desk.scene.install(replace(with_it, texts=texts))
    rounds = Rounds(desk.scene)
    while not desk.scene.store.alerts.find_open(CANARY_NAME):
        rounds.step()
    code, text = desk.run(f"alerts show {CANARY_NAME}")
    assert (code, f"{CANARY_NAME} on {CANARY_NAME}" in text) == (0, True), text
    listed = desk.run(f"deliveries --name {CANARY_NAME}")[1]
    (alert,) = desk.scene.store.alerts.find_open(CANARY_NAME)
    assert f"{alert.id}.1" in listed


def test_messages_of_a_notifier_that_is_none_are_refused_and_of_one_that_left_are_listed(desk: Desk) -> None:
    """A slip of the pen must not read as "nothing was owed"."""
    code, text = desk.run("deliveries --notifier onclal")
    assert code == 2, text
    assert "no notifier is called 'onclal'" in text
    assert "did you mean 'oncall'? There are oncall" in text
    code, text = desk.run("deliveries --notifier zebra --format json")
    assert (code, "There are oncall" in text) == (2, True), text
    texts = (("holdtrue.yaml", HOLDTRUE.replace("oncall", "pager")), ("invariants/all.yaml", INVARIANTS))
    desk.scene.install(replace(the_catalog(), texts=texts, content_hash="1" * 12))
    assert desk.json("deliveries --notifier oncall")["deliveries"] != []
    if desk.identity == "by store":
        assert desk.json("deliveries")["notifiers"] == ["pager", "oncall"]
        assert desk.json("deliveries --notifier pager")["deliveries"] == []


def test_who_acts_is_known_by_the_account_where_no_variable_says_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Semantics 11.1: an audit line without a name helps nobody; services and containers often set no USER."""
    for variable in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    login = pwd.getpwuid(os.getuid()).pw_name
    code, text = desk.run("alerts ack refunds")
    assert (code, text) == (0, f"alert 1 (refunds on payments): {login} ({desk.identity}) has it\n")


def test_deliveries_are_listed_counted_and_end_with_4_when_one_failed(desk: Desk) -> None:
    code, text = desk.run("deliveries")
    assert code == 0
    assert "1.1" in text
    assert "\noncall: 1 pending\n" in text
    assert "what they cannot do:\n  oncall: " in text
    desk.scene.deliver(Undelivered("channel_not_found: there is no such channel", permanent=True))
    code, text = desk.run("deliveries --state failed --notifier oncall --name refunds")
    assert (code, "channel_not_found" in text) == (4, True)
    code, text = desk.run("deliveries --state sent")
    assert (code, text.partition("\n\n")[0]) == (0, "no such message\noncall: 1 failed")
    desk.run("alerts silence tag=money --for 1h -m why")
    desk.scene.pass_time(EVERY)
    desk.scene.look({PAIR: Found(tuple((str(one),) for one in range(9)))})
    assert "withheld by silence 1" in desk.run("deliveries --state withheld")[1]
    code, text = desk.run("deliveries --state withheld --state sent --format json")
    assert code == 0
    assert [one["state"] for one in json.loads(text)["deliveries"]] == ["withheld"]


def test_a_message_that_is_retried_says_when(desk: Desk) -> None:
    desk.scene.deliver(Undelivered("it did not answer"), retry_after=EVERY)
    assert "retried at 2026-11-29T01:15:00.000Z" in desk.run("deliveries")[1]
    desk.scene.pass_time(2 * EVERY)
    desk.scene.deliver(Delivered())
    assert "sent" in desk.run("deliveries")[1]


def test_where_state_is_carried_it_says_where_the_same_silence_could_not_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Semantics 7.6."""
    scene = Scene(tmp_path)
    scene.install(the_catalog())
    mirrors = (Elsewhere("am-1"), Elsewhere("am-2", "it did not answer"))
    with served(web_service(scene, mirrors=lambda: mirrors)) as url:
        monkeypatch.setenv("HOLDTRUE_URL", url)
        assert command(["alerts", "silence", "name~*", "--for", "1h", "-m", "why"]) == 4
        printed = capsys.readouterr().out
        assert "  at am-1\n" in printed
        assert "  not at am-2: it did not answer of 1\n" in printed
        assert command(["alerts", "unsilence", "1"]) == 4
    scene.store.close()


def test_who_has_an_alert_and_what_is_silent_is_said_wherever_it_is_listed(desk: Desk) -> None:
    """Semantics 7.4, 7.5: `overview` tells of nobody who is told while a silence withholds the messages."""
    assert "tells oncall" in desk.run("overview")[1]
    assert desk.json("alerts list")["alerts"][0]["silenced"] is None
    desk.run("alerts ack refunds")
    desk.run("alerts silence name=refunds --for 2h -m 'migration 41'")
    whose, silent = f"alice ({desk.identity})", "silenced by 1 until 2026-11-29T03:00:00.000Z"
    for line in ("overview", "alerts list"):
        said = next(one for one in desk.run(line)[1].splitlines() if "refunds" in one)
        assert f"{whose} has it, {silent}" in said
        assert "tells" not in said
    assert silent.removeprefix("silenced ") in desk.run("alerts show 1")[1]
    assert desk.json("alerts show 1")["silenced"] == {
        "silence": 1,
        "by": whose,
        "until": "2026-11-29T03:00:00.000Z",
        "comment": "migration 41",
    }
    listed = desk.json("alerts list")["alerts"][0]
    code, text = desk.run("overview --format json")
    entry = next(one for one in json.loads(text)["entries"] if one["invariant"] == "refunds")
    assert (code, entry["silenced"], entry["acknowledged_by"]) == (1, listed["silenced"], listed["acknowledged_by"])
    assert (listed["silenced"]["silence"], listed["acknowledged_by"]) == (1, whose)
