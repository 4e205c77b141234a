"""What nobody could try: refused, given only where it is asked for, and what a caller may say that it found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from holdtrue import promotion, reports
from holdtrue.cli.promoting import Asked, PromotingByService
from holdtrue.databases.taking import no_right
from holdtrue.errors import NotTried, PromotionRefused, Refused
from holdtrue.model import Dialect, Incident, Ticket, Tried
from holdtrue.promotion.drafts import Draft
from holdtrue.promotion.making import make_ticket
from holdtrue.rehearsal import IncidentRehearsal, Rehearse, Rehearsed
from holdtrue.scaffolding import Finding, Wanted
from holdtrue.store.records import KeptEvidence
from racy import schema
from scenes.promoting import CREDIT, DRIFT, DRIFTING, RULE, SETTLE, alert_of, catalog, opened_house, preview, promote
from stores import House


@pytest.fixture
def house(sqlite_url: str) -> Iterator[House]:
    with opened_house(sqlite_url) as made:
        yield made


def test_without_a_trial_nothing_leaves_until_it_is_asked_for_untried(
    tmp_path: Path, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """semantics 0, 9.2: refused with what is missing; asked for, header, manual, record and audit say NOT LOOKED."""
    alert, config = alert_of(house, tmp_path / "a.db", RULE, schema.ROWS, [SETTLE, SETTLE])
    monkeypatch.setattr("holdtrue.rehearsal.incidents.on_sqlite", _no_place)
    for make in (preview, promote):
        with pytest.raises(NotTried, match="a scratch SQLite ended with an unexpected OSError") as found:
            make(house, catalog(config=config), alert, by="ana")
        assert "folder for temporary files: see that it can be written" in found.value.remedy
        assert f"holdtrue promote {alert} --untried" in found.value.remedy
    assert house.store.tickets.list(alert) == ()
    assert audited(house) == []
    shown = preview(house, catalog(config=config), alert, by="ana", untried=True)
    with pytest.raises(NotTried):
        promote(house, catalog(config=config), alert, by="ana", draft=shown.draft)
    made = promote(house, catalog(config=config), alert, by="ana", draft=shown.draft, untried=True)
    assert made.files == shown.files
    files = dict(made.files)
    for name in (f"test_incident_{RULE.name}_{alert}.py", "README.md"):
        assert "NOT LOOKED: " in files[name]
        assert "nobody knows yet whether these rows break the rule" in files[name]
    assert json.loads(files["ticket.json"])["rehearsed"]["result"] == "not looked"
    assert audited(house) == [("ana", f"ticket {made.id}, untried")]


def _no_place(_: str) -> Any:
    raise OSError("no space")


def audited(house: House) -> list[tuple[str, str]]:
    return [(one.who, one.detail) for one in house.store.reads.audit(50) if one.action == "alert.promote"]


@dataclass
class Scripted:
    """A rehearsal that finds one thing after the other, and counts."""

    findings: list[Finding]
    place: bool = True
    asked: list[str] = field(default_factory=list)

    @contextmanager
    def begin(self) -> Iterator[Rehearse]:
        def rehearse(incident: Incident, *_: Any) -> Rehearsed:
            self.asked.append(incident.checksum)
            found = self.findings[min(len(self.asked), len(self.findings)) - 1]
            return Rehearsed(found, f"the {len(self.asked)}. is {found}", place=self.place)

        yield rehearse


@pytest.fixture
def dialect() -> Dialect:
    """What the rows are said to be from."""
    return Dialect.SQLITE


@pytest.fixture
def two_kept(tmp_path: Path, house: House, dialect: Dialect) -> Callable[..., Ticket]:
    """Makes the ticket of an alert whose violation can be read in two ways at least."""
    rule = replace(DRIFTING, sql=DRIFT)
    after = [CREDIT, CREDIT, "UPDATE accounts SET credit_balance_eur = 40"]
    before = ["INSERT INTO accounts VALUES ('acc_1', 0, 0)"]
    alert, config = alert_of(house, tmp_path / "a.db", rule, before, after)

    def make(rehearsal: Scripted, **wanted: Any) -> Ticket:
        whole = catalog(rule, replace(config, dialect=dialect))
        now = house.clock.now
        return promotion.preview(
            house.store, whole, alert, by="ana", now=now, rehearsal=rehearsal, wanted=Wanted(**wanted)
        )

    return make


FAILED = [Finding.SEED_REFUSED, Finding.SEED_BREAKS, Finding.OBSERVED_REFUSED, Finding.NOT_BROKEN]


@pytest.mark.parametrize("failed", FAILED)
@pytest.mark.parametrize("then", [[], [Finding.NOT_LOOKED]], ids=["alone", "before one that nobody could try"])
def test_a_failed_trial_is_overridden_by_nothing(
    failed: Finding, then: list[Finding], two_kept: Callable[..., Ticket]
) -> None:
    """semantics 9.2: neither by asking for it untried, nor by what a caller says that it found."""
    rehearsal = Scripted([failed, *then])
    for wanted in ({}, {"untried": True}):
        with pytest.raises(PromotionRefused, match=f"makes no test.*the 1. is {failed}") as found:
            two_kept(Scripted([failed, *then]), **wanted)
        assert not isinstance(found.value, NotTried)
        assert ("more could not be tried" in str(found.value)) == bool(then)
    shown = two_kept(Scripted([Finding.BREAKS]))
    with pytest.raises(PromotionRefused, match="makes no test"):
        two_kept(rehearsal, untried=True, draft=shown.draft, tried=dict.fromkeys(checksums(shown), Finding.BREAKS))


def checksums(ticket: Ticket) -> list[str]:
    return [json.loads(dict(ticket.files)["ticket.json"])["checksum"]]


def test_what_a_caller_found_counts_where_nobody_else_could_look(two_kept: Callable[..., Ticket]) -> None:
    """semantics 9.2: of that very incident only, and the files say whose word it is."""
    blind = Scripted([Finding.NOT_LOOKED])
    shown = two_kept(blind, to_try=True)
    assert shown.tried is Tried.UNTRIED
    (checksum,) = checksums(shown)
    made = two_kept(blind, draft=shown.draft, tried={checksum: Finding.BREAKS})
    assert made.tried is Tried.BY_CALLER
    record = json.loads(dict(made.files)["ticket.json"])
    assert record["rehearsed"]["result"] == "breaks"
    assert record["rehearsed"]["sentence"].startswith(
        "tried by the caller of the service on a scratch database of its own"
    )
    with pytest.raises(NotTried):
        two_kept(blind, draft=shown.draft, tried={"0" * 64: Finding.BREAKS})
    for failed in FAILED:
        with pytest.raises(PromotionRefused, match=r"makes no test.*tried by the caller of the service") as found:
            two_kept(blind, draft=shown.draft, tried={checksum: failed}, untried=True)
        assert not isinstance(found.value, NotTried)
    with pytest.raises(NotTried):
        two_kept(blind, draft=shown.draft, tried={checksum: Finding.NOT_LOOKED})


def test_a_server_that_is_not_there_is_looked_for_once(two_kept: Callable[..., Ticket]) -> None:
    rehearsal = Scripted([Finding.NOT_LOOKED], place=False)
    with pytest.raises(NotTried):
        two_kept(rehearsal)
    assert len(rehearsal.asked) == 1


def test_a_violation_that_was_kept_without_a_schema_hides_none_that_can_be_tried(
    tmp_path: Path, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """semantics 9.2: nor does it leave untried, or to a caller that tries it, while another stands beside it."""
    alert, config = alert_of(house, tmp_path / "a.db", RULE, schema.ROWS, [SETTLE, SETTLE])
    detail = house.store.alerts.get(alert)
    (whole,) = detail.evidence
    bare = replace(whole, evidence=replace(whole.evidence, schema_sql=""))

    def make(*kept: KeptEvidence, **wanted: Any) -> Ticket:
        rehearsal, rest = IncidentRehearsal({}), {"beside": lambda _: None, "wanted": Wanted(**wanted)}
        beside_it = replace(detail, evidence=kept)
        draft = Draft.new(house.clock.now)
        return make_ticket(beside_it, catalog(config=config), by="ana", draft=draft, rehearsal=rehearsal, **rest)

    assert make(bare, bare, whole).tried is Tried.HERE
    with pytest.raises(NotTried, match="no schema was kept"):
        make(bare, to_try=True)
    forbidden = replace(bare, evidence=replace(bare.evidence, incomplete=no_right("disputes", "disputes", parent=True)))
    with pytest.raises(NotTried, match="may not read all of disputes, a foreign-key parent") as found:
        make(forbidden)
    assert "give the login SELECT on the tables of base_rows and on their foreign-key parents" in found.value.remedy
    assert make(bare, untried=True).tried is Tried.UNTRIED
    monkeypatch.setattr("holdtrue.rehearsal.incidents.on_sqlite", _no_place)
    for wanted in ({"untried": True}, {"to_try": True}):
        made = make(bare, whole, **wanted)
        assert made.tried is Tried.UNTRIED
        assert "CREATE TABLE" in dict(made.files)["incident_schema.sql"]


class ServiceAt:
    """Stands for the client of a service that cannot look itself, over a real store."""

    def __init__(self, make: Callable[..., Ticket]) -> None:
        self.make = make
        self.bodies: list[dict[str, Any]] = []

    def post(self, *_: str, body: dict[str, Any]) -> dict[str, Any]:
        self.bodies.append(json.loads(json.dumps(body)))
        asked = {name: value for name, value in body.items() if name != "preview"}
        return reports.ticket(self.make(Scripted([Finding.NOT_LOOKED]), **asked))


@pytest.fixture
def elsewhere(two_kept: Callable[..., Ticket], monkeypatch: pytest.MonkeyPatch) -> Callable[..., PromotingByService]:
    """The command before a service that cannot look; what its own trials find is written down."""

    def make(*findings: Finding) -> PromotingByService:
        here = Scripted(list(findings))
        monkeypatch.setattr("holdtrue.rehearsal.IncidentRehearsal", lambda _: here)
        return PromotingByService(ServiceAt(two_kept))  # type: ignore[arg-type]

    return make


@pytest.mark.parametrize("dialect", [Dialect.POSTGRESQL])
def test_the_command_tries_one_incident_after_the_other_until_one_breaks(
    elsewhere: Callable[..., PromotingByService],
) -> None:
    """semantics 9.2: what failed here is passed over there, and the same draft makes the same incidents."""
    command = elsewhere(Finding.SEED_BREAKS, Finding.BREAKS)
    shown = command.preview(Asked(1))
    assert shown["rehearsed"]["result"] == "breaks"
    made = command.promote(Asked(1, str(shown["draft"])))
    assert made["files"] == shown["files"]
    bodies = command.client.bodies  # type: ignore[attr-defined]
    assert len(bodies[-1]["tried"]) == 2
    assert not any(one.get("untried") for one in bodies)
    assert len({one["draft"] for one in bodies[2:]}) == 1


@pytest.mark.parametrize("dialect", [Dialect.POSTGRESQL])
@pytest.mark.parametrize("untried", [False, True])
@pytest.mark.parametrize("then", [Finding.NOT_BROKEN, Finding.NOT_LOOKED])
def test_what_failed_here_is_refused_however_it_is_asked_for(
    elsewhere: Callable[..., PromotingByService], then: Finding, *, untried: bool
) -> None:
    """semantics 9.2."""
    with pytest.raises(Refused, match=r"makes no test.*; here: the 1. is seed breaks") as found:
        elsewhere(Finding.SEED_BREAKS, then).preview(Asked(1, untried=untried))
    assert not isinstance(found.value, NotTried)


@pytest.mark.parametrize("dialect", [Dialect.POSTGRESQL])
def test_what_nobody_could_try_here_either_leaves_only_if_it_is_asked_for(
    elsewhere: Callable[..., PromotingByService],
) -> None:
    """semantics 9.2."""
    with pytest.raises(NotTried, match=r"nobody could try.*, nor here: the 1. is not looked"):
        elsewhere(Finding.NOT_LOOKED).preview(Asked(1))
    shown = elsewhere(Finding.NOT_LOOKED).preview(Asked(1, untried=True))
    assert shown["rehearsed"]["result"] == "not looked"


def test_no_text_of_a_service_is_run_on_a_file_of_sqlite_here(elsewhere: Callable[..., PromotingByService]) -> None:
    command = elsewhere(Finding.BREAKS)
    with pytest.raises(NotTried):
        command.preview(Asked(1))
    assert not any(one.get("tried") for one in command.client.bodies)  # type: ignore[attr-defined]
