from __future__ import annotations

from dataclasses import replace

from holdtrue.model import (
    Disposition,
    Evidence,
    EvidenceRow,
    KeyState,
    Novelty,
    Outcome,
)
from stores import DATABASE, EVERY, NOON, House, entry, position


def key(name: str, novelty: Novelty = Novelty.NEW, disposition: Disposition = Disposition.COUNTED) -> KeyState:
    counted = NOON if disposition is Disposition.COUNTED else None
    return KeyState(name, disposition, novelty, NOON, NOON, counted, f"shown {name}")


def evidence_of(name: str) -> Evidence:
    row = EvidenceRow("refunds", ("id", "state"), ("7", None), ("integer", "text"), False, 745, NOON)
    return Evidence(
        name, ("id",), ("7",), (row,), position(NOON), "CREATE TABLE refunds ()", ("trigger t",), ("refunds.id",)
    )


def test_the_ledger_keeps_what_changed_and_what_it_was_made_with(house: House) -> None:
    """semantics 4.2 and 4.3."""
    house.install(entry())
    house.due(
        Outcome.VIOLATED,
        key_changes=(key("a"), key("b", disposition=Disposition.SETTLING)),
        secret_id="s1",
        key_columns=("dispute_id", "leg"),
        timezone="Europe/Berlin",
        horizon="ff",
    )
    before = house.store.runs.before("rule", DATABASE).ledger
    assert dict(before.keys) == {"a": key("a"), "b": key("b", disposition=Disposition.SETTLING)}
    assert (before.secret_id, before.key_columns, before.timezone) == ("s1", ("dispute_id", "leg"), "Europe/Berlin")
    assert (before.horizon, before.looked_before) == ("ff", True)
    house.due(Outcome.HELD, key_changes=(key("a", Novelty.FIXED),), secret_id="s1")
    keys = house.store.runs.before("rule", DATABASE).ledger.keys
    assert {name: state.novelty for name, state in keys.items()} == {"a": Novelty.FIXED, "b": Novelty.NEW}


def test_the_past_of_many_claims_is_read_at_once(house: House) -> None:
    house.install(entry("a"), entry("b"), entry("c"))
    claims = house.claim()
    for claim in claims[:2]:
        house.save(house.finished(claim, Outcome.VIOLATED, key_changes=(key(f"of {claim.invariant}"),), secret_id="s1"))
    house.clock.forward(EVERY)
    house.store.systems.accept(DATABASE, "7312", "somebody")
    claims = house.claim()
    befores = house.store.runs.before_all(claims)
    assert befores == {(one.invariant, DATABASE): house.store.runs.before(one.invariant, DATABASE) for one in claims}
    assert [list(befores[name, DATABASE].ledger.keys) for name in "abc"] == [["of a"], ["of b"], []]
    house.install(entry("b"))
    house.install(entry("d", renamed_from="b"))
    assert ("b", DATABASE) not in house.store.runs.before_all(claims)
    assert house.store.runs.before_all([]) == {}


def test_a_run_that_could_not_look_leaves_the_ledgers_facts_alone(house: House) -> None:
    """semantics 7.2 and 4.2: an errored run says nothing about the rule."""
    house.install(entry())
    house.due(Outcome.VIOLATED, key_changes=(key("a"),), secret_id="s1", horizon="ff")
    before = house.store.runs.before("rule", DATABASE)
    house.clock.forward(EVERY)
    house.due(Outcome.ERRORED, secret_id="s2", horizon="00")
    after = house.store.runs.before("rule", DATABASE)
    assert (after.ledger, after.newest_good) == (before.ledger, before.newest_good)


def test_a_run_cut_short_under_another_secret_leaves_the_ledger_as_it_was(house: House) -> None:
    """semantics 4.2, 3.4: it has not seen all keys, so that it cannot be the new base and makes no known key new."""
    house.install(entry())
    house.due(Outcome.VIOLATED, key_changes=(key("a"),), secret_id="s1", key_columns=("id",), timezone="UTC")
    before = house.store.runs.before("rule", DATABASE).ledger
    (claim,) = house.claim()
    run = house.run(claim, Outcome.VIOLATED, counted=1, complete=False, rebaselined="the ledger secret changed")
    house.save(house.finished(claim, run=run, secret_id=None))
    assert house.store.runs.before("rule", DATABASE).ledger == before


def test_a_rebaseline_forgets_the_hashes_that_never_match_again(house: House) -> None:
    """semantics 4.2."""
    house.install(entry())
    house.due(Outcome.VIOLATED, key_changes=(key("old"),), secret_id="s1")
    (claim,) = house.claim()
    run = house.run(claim, Outcome.VIOLATED, counted=1, rebaselined="the ledger's secret changed")
    house.save(house.finished(claim, run=run, key_changes=(key("anew", Novelty.KNOWN),), secret_id="s2"))
    ledger = house.store.runs.before("rule", DATABASE).ledger
    assert (list(ledger.keys), ledger.secret_id) == (["anew"], "s2")


def test_evidence_has_the_window_from_the_last_complete_good_run_of_its_definition(house: House) -> None:
    """semantics 9.1 and 9.2."""
    house.install(entry())
    house.due(Outcome.HELD)
    (claim,) = house.claim()
    unfinished = house.run(claim, Outcome.VIOLATED, counted=1, complete=False)
    house.save(house.finished(claim, run=unfinished))
    house.clock.forward(EVERY)
    house.due(Outcome.VIOLATED, key_changes=(key("k"),), evidence=(evidence_of("k"),))
    (alert,) = house.store.alerts.find_open("rule")
    (kept,) = house.store.alerts.get(alert.id).evidence
    assert kept.evidence == evidence_of("k")
    assert (kept.last_good, kept.last_good_at) == (position(NOON), NOON)
    assert kept.taken_at == NOON + 2 * EVERY


def test_a_key_that_was_there_at_the_first_look_of_its_definition_has_no_run_before_it(house: House) -> None:
    """semantics 9.2: a good run of another definition did not look for it."""
    house.install(entry())
    house.due(Outcome.HELD)
    house.install(entry(definition="d2"))
    house.due(Outcome.VIOLATED, key_changes=(key("k"),), evidence=(evidence_of("k"),))
    (alert,) = house.store.alerts.find_open("rule")
    (kept,) = house.store.alerts.get(alert.id).evidence
    assert (kept.last_good, kept.last_good_at) == (None, None)


def test_evidence_of_a_key_that_settled_first_comes_with_the_episode_it_counts_in(house: House) -> None:
    """semantics 9.1: taken in the run that first returns a key, counted or not."""
    house.install(entry())
    settling = key("k", disposition=Disposition.SETTLING)
    house.due(Outcome.HELD, key_changes=(settling,), evidence=(evidence_of("k"),))
    house.due(Outcome.VIOLATED, key_changes=(key("k"), key("other")))
    (alert,) = house.store.alerts.find_open("rule")
    detail = house.store.alerts.get(alert.id)
    assert [kept.evidence.key for kept in detail.evidence] == ["k"]
    assert detail.evidence[0].taken_at == NOON


def test_an_episode_keeps_evidence_of_twenty_keys_and_the_first_of_each(house: House) -> None:
    """semantics 9.1."""
    house.install(entry())
    for first in (0, 15):
        names = [f"k{number:02}" for number in range(first, first + 15)]
        changes = tuple(key(name) for name in names)
        house.due(
            Outcome.VIOLATED, counted=30, key_changes=changes, evidence=tuple(evidence_of(name) for name in names)
        )
    again = replace(evidence_of("k00"), incomplete="a later look")
    house.due(Outcome.VIOLATED, evidence=(again,))
    (alert,) = house.store.alerts.find_open("rule")
    kept = house.store.alerts.get(alert.id).evidence
    assert len(kept) == 20
    assert all(not one.evidence.incomplete for one in kept)
