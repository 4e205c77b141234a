"""compares the keys of a run with what was known of them"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from holdtrue.ledger.keys import rank
from holdtrue.model import Comparison, Disposition, KeyState, LedgerBefore, Novelty, Sample, Tallied


def compare(
    before: LedgerBefore, tallied: Tallied, *, complete: bool, now: datetime, secret_id: str, timezone: str
) -> Comparison:
    """Compare the keys of a good run with what was known (semantics 4.1 to 4.3).

    An incomplete run never makes a key ``fixed``. Above the ledger's limit only keys up to the lesser of the two runs'
    horizons are compared; those beyond it become known without being counted. Only changed states are returned.
    """
    if not tallied.identified:
        return Comparison(horizon=before.horizon, keeps_facts=False)
    why = why_other_hashes(before, key_columns=tallied.key_columns, secret_id=secret_id, timezone=timezone)
    if why:
        return _rebaseline(before, tallied, why, complete=complete, now=now)
    lesser = min((one for one in (before.horizon, tallied.horizon) if one is not None), key=rank, default=None)
    limit = rank(lesser) if lesser is not None else None
    seen_until = rank(tallied.horizon) if tallied.horizon is not None else None
    tally = {Novelty.NEW: 0, Novelty.KNOWN: 0, Novelty.RETURNED: 0}
    changed: list[KeyState] = []
    never_seen: list[str] = []
    novelties: dict[str, str] = {}
    for key, (disposition, shown) in tallied.keys.items():
        old = before.keys.get(key)
        compared = limit is None or rank(key) <= limit
        state = _present(key, disposition, shown, old, compared=compared, now=now, young=tallied.young.get(key))
        if state != old:
            changed.append(state)
        if old is None and compared:
            never_seen.append(key)
        if compared and disposition is Disposition.COUNTED:
            tally[state.novelty] += 1
            novelties[key] = state.novelty.value
    fixed = healed = 0
    if complete:
        for key, old in before.keys.items():
            place = rank(key)
            if key in tallied.keys or old.novelty is Novelty.FIXED or (seen_until is not None and place > seen_until):
                continue
            changed.append(replace(old, novelty=Novelty.FIXED, last_changed=now))
            if limit is not None and place > limit:
                continue
            if old.disposition is Disposition.SETTLING:
                healed += 1
            elif old.first_counted is not None:
                fixed += 1
    return Comparison(
        new=tally[Novelty.NEW],
        known=tally[Novelty.KNOWN],
        came_back=tally[Novelty.RETURNED],
        fixed=fixed,
        healed=healed,
        changed=tuple(sorted(changed, key=lambda state: rank(state.key))),
        never_seen=tuple(sorted(never_seen, key=rank)),
        of_a_sample=limit is not None,
        novelties=novelties,
        # What an incomplete run did not keep, it may have seen: the ledger is whole below the lesser of the two only.
        horizon=tallied.horizon if complete else lesser,
    )


def with_novelties(sample: Sample, comparison: Comparison) -> Sample:
    """The sample, each row with its novelty, or why it does not count; empty where the ledger cannot tell."""
    beside = sample.novelties or ("",) * len(sample.keys)
    told = (said or comparison.novelties.get(key, "") for said, key in zip(beside, sample.keys, strict=True))
    return replace(sample, novelties=tuple(told))


def _present(
    key: str,
    disposition: Disposition,
    shown: str,
    old: KeyState | None,
    *,
    compared: bool,
    now: datetime,
    young: datetime | None,
) -> KeyState:
    """The state of a key that is there; beyond the horizon nobody can say that it was not there before."""
    counts = disposition is Disposition.COUNTED
    if old is None:
        novelty = Novelty.NEW if compared else Novelty.KNOWN
        first_counted = now if counts else None
        return KeyState(key, disposition, novelty, now, now, first_counted, shown, present_since=now, young_since=young)
    gone = old.novelty is Novelty.FIXED
    if not counts:
        novelty = Novelty.KNOWN if gone else old.novelty
    elif old.first_counted is None:
        novelty = Novelty.NEW if compared else Novelty.KNOWN
    elif gone:
        novelty = Novelty.RETURNED if compared else Novelty.KNOWN
    else:
        novelty = Novelty.KNOWN
    first_counted = old.first_counted or (now if counts else None)
    if (disposition, novelty, first_counted) == (old.disposition, old.novelty, old.first_counted):
        return old
    if disposition is Disposition.SETTLING:
        # The first moment stands: a column that is touched again and again makes no row younger.
        young = young if gone or old.young_since is None else old.young_since
    return replace(
        old,
        disposition=disposition,
        novelty=novelty,
        first_counted=first_counted,
        last_changed=now,
        present_since=now if gone else old.present_since,
        young_since=young,
    )


def why_other_hashes(before: LedgerBefore, *, key_columns: tuple[str, ...], secret_id: str, timezone: str) -> str:
    """Why hashes of this secret, key and time zone cannot be compared with the ledger's; empty if they can."""
    if not before.secret_id:
        return ""
    if before.secret_id != secret_id:
        return "the ledger secret changed"
    if before.key_columns != key_columns:
        return "the key changed"
    if before.timezone != timezone:
        return "the time zone changed"
    return ""


def _rebaseline(before: LedgerBefore, tallied: Tallied, why: str, *, complete: bool, now: datetime) -> Comparison:
    """All present keys are known; former identities are closed without being called fixed (semantics 4.2).

    An incomplete run has not seen all keys, so that it cannot be the new base: the ledger stays as it was.
    """
    known = sum(disposition is Disposition.COUNTED for disposition, _ in tallied.keys.values())
    sampled = tallied.horizon is not None
    if not complete:
        return Comparison(known=known, of_a_sample=sampled, rebaselined=why, horizon=before.horizon, keeps_facts=False)
    changed: list[KeyState] = []
    for key, (disposition, shown) in tallied.keys.items():
        old = before.keys.get(key)
        state = _present(key, disposition, shown, old, compared=False, now=now, young=tallied.young.get(key))
        if state != old:
            changed.append(state)
    gone = [old for key, old in before.keys.items() if key not in tallied.keys and old.novelty is not Novelty.FIXED]
    changed.extend(replace(old, novelty=Novelty.FIXED, last_changed=now) for old in gone)
    return Comparison(
        known=known,
        changed=tuple(sorted(changed, key=lambda state: rank(state.key))),
        of_a_sample=sampled,
        rebaselined=why,
        novelties=dict.fromkeys(tallied.keys, Novelty.KNOWN.value),
        horizon=tallied.horizon,
    )
