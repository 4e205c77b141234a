"""decides dispositions and novelties of rows (pure)"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from holdtrue.model import (
    Column,
    Comparison,
    Disposition,
    Failure,
    FailureReason,
    Invariant,
    KeyState,
    LedgerBefore,
    Novelty,
    Outcome,
    Returns,
    Row,
    Sample,
    Tallied,
)
from holdtrue.model.masking import display_mask, excerpt

SAMPLE_SIZE = 20
KEY_LIMIT = 10_000
NULL_SENTENCE = "the query returned NULL (write coalesce(…, 0))"

_KEY_BYTES = 16
_CELL_LIMIT = 2_000
_SHOWN_LIMIT = 200
_SHOWN_COLUMNS = 6
_LARGEST_COUNT = 2**63 - 1
_INTEGER = re.compile(r"[0-9]+")
_BLOCK = 64


class KeyHasher:
    """Turns the values of a key into a keyed hash that the store may keep (semantics 4.2)."""

    def __init__(self, secret: bytes) -> None:
        """Take ``ledger_secret``.

        Raises:
            ValueError: the secret is empty.
        """
        if not secret:
            raise ValueError("the ledger secret is empty")
        self._secret = secret
        block = hashlib.sha256(secret).digest() if len(secret) > _BLOCK else secret
        block = block.ljust(_BLOCK, b"\0")
        # HMAC-SHA256 from two prepared states: a third of the time of hmac.digest, on the path of every row.
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))
        self.secret_id = self.digest(b"secret id").hex()[:8]

    def digest(self, message: bytes) -> bytes:
        """HMAC-SHA256 of ``message`` under the secret."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(message)
        outer.update(inner.digest())
        return outer.digest()

    def hash(self, values: Sequence[str | None]) -> str:
        """128 bits in hex: equal for equal values in the same order; NULL differs from every text."""
        return self.digest(canonical(values)).hex()[: 2 * _KEY_BYTES]

    def mask(self, value: str | None) -> str | None:
        """What is shown in place of a value that is not declared safe."""
        return display_mask(value, self._secret)


def canonical(values: Sequence[str | None]) -> bytes:
    """The values as one message that reads back in one way only: each with its length, NULL as ``-``."""
    text = "".join(["-" if value is None else f"{len(value)}:{value}" for value in values])
    return text.encode("utf-8", "surrogatepass")


class Tally:
    """Counts the rows of one execution as they stream, in memory that does not grow with them.

    Kept are the ``key_limit`` smallest keys, ordered by (hash, number), and the first ``sample_size`` rows, masked; neither
    the order of rows nor their number decides which keys are kept (semantics 4.3).
    """

    def __init__(
        self,
        invariant: Invariant,
        columns: Sequence[Column],
        hasher: KeyHasher,
        *,
        safe_columns: frozenset[str] | None = None,
        sample_size: int = SAMPLE_SIZE,
        key_limit: int = KEY_LIMIT,
    ) -> None:
        """Begin for a result with these columns; ``safe_columns`` is the database's cap on what may be called safe."""
        self._hasher = hasher
        self._names = tuple(column.name for column in columns)
        self._sample_size = sample_size
        self._key_limit = key_limit
        self._returns_count = invariant.returns is Returns.COUNT
        safe = invariant.columns if safe_columns is None else invariant.columns & safe_columns
        self._safe = tuple(name in safe for name in self._names)
        self._shape = self._shape_of_columns(invariant)
        key = invariant.key if invariant.key and self._shape is None else self._names
        self._key_columns = () if self._returns_count else key
        self._places = tuple(self._names.index(name) for name in self._key_columns)
        self._whole = self._key_columns == self._names
        self._returned = 0
        self._rows: list[Row] = []
        self._row_keys: list[bytes] = []
        self._kept: dict[bytes, int] = {}
        self._shown: dict[bytes, str] = {}
        self._pieces = 0
        self._ceiling: bytes | None = None
        self._number: str | None = None

    def _shape_of_columns(self, invariant: Invariant) -> Failure | None:
        if self._returns_count:
            if len(self._names) != 1:
                return _shape(f"`returns: count` wants one column, the query returned {len(self._names)}")
            return None
        missing = [name for name in invariant.key if name not in self._names]
        if missing:
            return _shape(f"the key names columns that the query does not return: {', '.join(missing)}")
        return None

    def add(self, row: Row) -> None:
        """Take one row, as server text."""
        self._returned += 1
        if self._returns_count:
            if self._returned == 1:
                self._number = row[0] if row else None
            return
        if self._whole:
            text = "".join(["-" if value is None else f"{len(value)}:{value}" for value in row])
        else:
            text = ""
            for place in self._places:
                value = row[place]
                text += "-" if value is None else f"{len(value)}:{value}"
        key = self._hasher.digest(text.encode("utf-8", "surrogatepass"))[:_KEY_BYTES]
        if self._returned <= self._sample_size:
            self._rows.append(self._mask_row(row))
            self._row_keys.append(key)
        ceiling = self._ceiling
        if ceiling is None or key <= ceiling:
            count = self._kept.get(key)
            if count is None:
                self._kept[key] = 1
                self._shown[key] = self._show_key(row)
            else:
                self._kept[key] = count + 1
            self._pieces += 1
            if self._pieces > 2 * self._key_limit:
                self._prune()

    def _prune(self) -> None:
        """Keep the smallest (hash, number) pairs: what is above them can never come back in."""
        kept: dict[bytes, int] = {}
        room = self._key_limit
        for key in sorted(self._kept):
            kept[key] = min(self._kept[key], room)
            room -= kept[key]
            self._ceiling = key
            if not room:
                break
        self._shown = {key: self._shown[key] for key in kept}
        self._kept = kept
        self._pieces = sum(kept.values())

    def _mask_row(self, row: Row) -> Row:
        return tuple(
            (None if value is None else excerpt(value, _CELL_LIMIT)) if safe else self._hasher.mask(value)
            for value, safe in zip(row, self._safe, strict=True)
        )

    def _show_key(self, row: Row) -> str:
        parts = []
        for place in self._places[:_SHOWN_COLUMNS]:
            value = row[place]
            if value is not None:
                value = excerpt(value, _SHOWN_LIMIT) if self._safe[place] else self._hasher.mask(value)
            parts.append(f"{self._names[place]}={'NULL' if value is None else value}")
        more = len(self._places) - _SHOWN_COLUMNS
        if more > 0:
            parts.append(f"+{more} more")
        return excerpt(", ".join(parts), _SHOWN_LIMIT)

    def result(self) -> Tallied:
        """What the rows came to so far."""
        if self._returns_count:
            return self._count_result()
        cut = self._returned > self._key_limit
        if self._pieces > self._key_limit:
            self._prune()
        keys = {
            _numbered(base.hex(), number): (Disposition.COUNTED, self._shown[base])
            for base in sorted(self._kept)
            for number in range(1, self._kept[base] + 1)
        }
        return Tallied(
            returned=self._returned,
            counted=self._returned,
            settling=0,
            waived=0,
            keys=keys,
            sample=self._sample(),
            horizon=next(reversed(keys), None) if cut else None,
            key_columns=self._key_columns,
            shape=self._shape,
        )

    def _sample(self) -> Sample:
        times: dict[bytes, int] = {}
        keys = []
        for key in self._row_keys:
            times[key] = times.get(key, 0) + 1
            keys.append(_numbered(key.hex(), times[key]))
        masked = frozenset(name for name, safe in zip(self._names, self._safe, strict=True) if not safe)
        return Sample(columns=self._names, rows=tuple(self._rows), keys=tuple(keys), masked=masked)

    def _count_result(self) -> Tallied:
        shape, count = self._shape, 0
        if shape is None and self._returned != 1:
            rows = "no row" if self._returned == 0 else f"{self._returned} rows"
            shape = _shape(f"`returns: count` wants one row, the query returned {rows}")
        elif shape is None and self._number is None:
            shape = Failure(FailureReason.NULL_COUNT, NULL_SENTENCE)
        elif shape is None and self._number is not None:
            if _INTEGER.fullmatch(self._number) and len(self._number) < 20 and int(self._number) <= _LARGEST_COUNT:
                count = int(self._number)
            else:
                shape = _shape("`returns: count` wants an integer of 0 or more, the query returned something else")
        return Tallied(
            returned=count,
            counted=count,
            settling=0,
            waived=0,
            keys={},
            sample=Sample(columns=self._names, rows=()),
            identified=False,
            shape=shape,
        )


def _shape(sentence: str) -> Failure:
    return Failure(FailureReason.SHAPE, sentence)


class Judgement(NamedTuple):
    """What a run comes to: its outcome, why it is errored or was cut short, and whether it saw all rows."""

    outcome: Outcome
    failure: Failure | None
    complete: bool


def judge(invariant: Invariant, tallied: Tallied | None, *, failure: Failure | None, complete: bool) -> Judgement:
    """Judge an execution: rows that arrived are proof, even if it was then cut short (semantics 1.5, 3.4).

    ``tallied`` is None if not even the columns arrived; ``complete`` is whether the rows ended by themselves.
    """
    counted = tallied.counted if tallied is not None else 0
    proven = tallied is not None and tallied.shape is None and counted > invariant.policy.tolerate
    if failure is not None or not complete or tallied is None:
        why = failure or Failure(FailureReason.COUNT_LIMIT, "counting stopped before the rows ended")
        return Judgement(Outcome.VIOLATED if proven else Outcome.ERRORED, why, complete=False)
    if tallied.shape is not None:
        return Judgement(Outcome.ERRORED, tallied.shape, complete=True)
    return Judgement(Outcome.VIOLATED if proven else Outcome.HELD, None, complete=True)


def compare(
    before: LedgerBefore, tallied: Tallied, *, complete: bool, now: datetime, secret_id: str, timezone: str
) -> Comparison:
    """Compare the keys of a good run with what was known (semantics 4.1 to 4.3).

    An incomplete run never makes a key ``fixed``. Above the ledger's limit only keys up to the lesser of the two runs'
    horizons are compared; those beyond it become known without being counted. Only changed states are returned.
    """
    if not tallied.identified:
        return Comparison(horizon=before.horizon, keeps_facts=False)
    why = _why_rebaselined(before, tallied, secret_id, timezone)
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
        state = _present(key, disposition, shown, old, compared=compared, now=now)
        if state != old:
            changed.append(state)
        if old is None and compared:
            never_seen.append(key)
        if compared and disposition is Disposition.COUNTED:
            tally[state.novelty] += 1
            novelties[key] = state.novelty.value
    fixed = 0
    if complete:
        for key, old in before.keys.items():
            place = rank(key)
            if key in tallied.keys or old.novelty is Novelty.FIXED or (seen_until is not None and place > seen_until):
                continue
            changed.append(replace(old, novelty=Novelty.FIXED, last_changed=now))
            if old.first_counted is not None and (limit is None or place <= limit):
                fixed += 1
    return Comparison(
        new=tally[Novelty.NEW],
        known=tally[Novelty.KNOWN],
        came_back=tally[Novelty.RETURNED],
        fixed=fixed,
        changed=tuple(sorted(changed, key=lambda state: rank(state.key))),
        never_seen=tuple(sorted(never_seen, key=rank)),
        of_a_sample=limit is not None,
        novelties=novelties,
        # What an incomplete run did not keep, it may have seen: the ledger is whole below the lesser of the two only.
        horizon=tallied.horizon if complete else lesser,
    )


def rank(key: str) -> tuple[str, int]:
    """The order of keys: by hash, then by number (``…#10`` comes after ``…#2``)."""
    base, _, number = key.partition("#")
    return base, int(number) if number else 1


def with_novelties(sample: Sample, comparison: Comparison) -> Sample:
    """The sample, each row with the novelty of its key; empty where the ledger cannot tell."""
    return replace(sample, novelties=tuple(comparison.novelties.get(key, "") for key in sample.keys))


def _numbered(base: str, number: int) -> str:
    return base if number == 1 else f"{base}#{number}"


def _present(
    key: str, disposition: Disposition, shown: str, old: KeyState | None, *, compared: bool, now: datetime
) -> KeyState:
    """The state of a key that is there; beyond the horizon nobody can say that it was not there before."""
    counts = disposition is Disposition.COUNTED
    if old is None:
        novelty = Novelty.NEW if compared else Novelty.KNOWN
        return KeyState(key, disposition, novelty, now, now, first_counted=now if counts else None, shown=shown)
    if not counts:
        novelty = Novelty.KNOWN if old.novelty is Novelty.FIXED else old.novelty
    elif old.first_counted is None:
        novelty = Novelty.NEW if compared else Novelty.KNOWN
    elif old.novelty is Novelty.FIXED:
        novelty = Novelty.RETURNED if compared else Novelty.KNOWN
    else:
        novelty = Novelty.KNOWN
    first_counted = old.first_counted or (now if counts else None)
    if (disposition, novelty, first_counted) == (old.disposition, old.novelty, old.first_counted):
        return old
    return replace(old, disposition=disposition, novelty=novelty, first_counted=first_counted, last_changed=now)


def _why_rebaselined(before: LedgerBefore, tallied: Tallied, secret_id: str, timezone: str) -> str:
    if not before.secret_id:
        return ""
    if before.secret_id != secret_id:
        return "the ledger secret changed"
    if before.key_columns != tallied.key_columns:
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
        state = _present(key, disposition, shown, old, compared=False, now=now)
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
