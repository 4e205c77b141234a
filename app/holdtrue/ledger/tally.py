"""counts the rows of one execution as they stream, in memory that stays flat"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from holdtrue.ledger.dispositions import Dispositions
from holdtrue.ledger.keys import KEY_BYTES, KeyHasher, numbered
from holdtrue.model import Column, Disposition, Failure, FailureReason, Invariant, Returns, Row, Sample, Tallied
from holdtrue.model.masking import excerpt

SAMPLE_SIZE = 20
KEY_LIMIT = 10_000
NULL_SENTENCE = "the query returned NULL (write coalesce(…, 0))"

_CELL_LIMIT = 2_000
_SHOWN_LIMIT = 200
_SHOWN_COLUMNS = 6
_LARGEST_COUNT = 2**63 - 1
_INTEGER = re.compile(r"[0-9]+")


class Tally:
    """Counts the rows of one execution as they stream, in memory that does not grow with them.

    Kept are the ``key_limit`` smallest keys, ordered by (hash, number), and the first ``sample_size`` rows, masked, those
    that count before others; neither the order of rows nor their number decides which keys are kept (semantics 4.3).
    """

    def __init__(
        self,
        invariant: Invariant,
        columns: Sequence[Column],
        hasher: KeyHasher,
        *,
        safe_columns: frozenset[str] | None = None,
        dispositions: Dispositions | None = None,
        sample_size: int = SAMPLE_SIZE,
        key_limit: int = KEY_LIMIT,
    ) -> None:
        """Begin for a result with these columns; ``safe_columns`` is the database's cap on what may be called safe.

        Without ``dispositions`` every row counts. ``last`` is what the row that was added last is.
        """
        self._hasher = hasher
        self._names = tuple(column.name for column in columns)
        self._sample_size = sample_size
        self._key_limit = key_limit
        self._returns_count = invariant.returns is Returns.COUNT
        safe = invariant.safe_within(safe_columns)
        self._safe = tuple(name in safe for name in self._names)
        self._dispositions = dispositions if dispositions is not None and dispositions.needed else None
        self._shape = self._shape_of_columns(invariant)
        key = invariant.key if invariant.key and self._shape is None else self._names
        self._key_columns = () if self._returns_count else key
        self._places = tuple(self._names.index(name) for name in self._key_columns)
        self._whole = self._key_columns == self._names
        self.last = Disposition.COUNTED
        self._returned = 0
        self._beside = {Disposition.SETTLING: 0, Disposition.WAIVED: 0}
        # Of kept keys with rows that do not count: how many rows have each disposition, and the oldest settling moment.
        self._kept_beside: dict[bytes, dict[Disposition, int]] = {}
        self._young: dict[bytes, datetime] = {}
        self._sampled: list[tuple[Row, bytes, Disposition]] = []
        self._sampled_beside: list[tuple[Row, bytes, Disposition]] = []
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
        key = self._hasher.digest(text.encode("utf-8", "surrogatepass"))[:KEY_BYTES]
        ceiling = self._ceiling
        kept = ceiling is None or key <= ceiling
        if self._dispositions is not None:
            self._judge(self._dispositions, row, key, kept=kept)
        elif self._returned <= self._sample_size:
            self._sampled.append((self._mask_row(row), key, Disposition.COUNTED))
        if kept:
            count = self._kept.get(key)
            if count is None:
                self._kept[key] = 1
                self._shown[key] = self._show_key(row)
            else:
                self._kept[key] = count + 1
            self._pieces += 1
            if self._pieces > 2 * self._key_limit:
                self._prune()

    def _judge(self, dispositions: Dispositions, row: Row, key: bytes, *, kept: bool) -> None:
        disposition, moment = dispositions.of(row, key)
        self.last = disposition
        sampled = self._sampled
        if disposition is not Disposition.COUNTED:
            self._beside[disposition] += 1
            sampled = self._sampled_beside
        if len(sampled) < self._sample_size:
            sampled.append((self._mask_row(row), key, disposition))
        counts = self._kept_beside.get(key)
        if not kept or (counts is None and disposition is Disposition.COUNTED):
            return
        if counts is None:
            counts = self._kept_beside[key] = dict.fromkeys(Disposition, 0)
            counts[Disposition.COUNTED] = self._kept.get(key, 0)
        counts[disposition] += 1
        if moment is not None:
            former = self._young.get(key)
            self._young[key] = moment if former is None else min(former, moment)

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
        self._kept_beside = {key: counts for key, counts in self._kept_beside.items() if key in kept}
        self._young = {key: moment for key, moment in self._young.items() if key in kept}
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
            numbered(base.hex(), number): (self._disposition(base, number), self._shown[base])
            for base in sorted(self._kept)
            for number in range(1, self._kept[base] + 1)
        }
        settling, waived = self._beside[Disposition.SETTLING], self._beside[Disposition.WAIVED]
        return Tallied(
            returned=self._returned,
            counted=self._returned - settling - waived,
            settling=settling,
            waived=waived,
            keys=keys,
            sample=self._sample(),
            horizon=next(reversed(keys), None) if cut else None,
            key_columns=self._key_columns,
            shape=self._shape or (self._dispositions.shape if self._dispositions is not None else None),
            young={
                key: self._young[bytes.fromhex(key.partition("#")[0])]
                for key, (disposition, _) in keys.items()
                if disposition is Disposition.SETTLING
            },
        )

    def _disposition(self, base: bytes, number: int) -> Disposition:
        """Of rows with one key the waived ones have the lowest numbers, those that settle the highest."""
        counts = self._kept_beside.get(base)
        if counts is None:
            return Disposition.COUNTED
        if number <= counts[Disposition.WAIVED]:
            return Disposition.WAIVED
        counted = counts[Disposition.WAIVED] + counts[Disposition.COUNTED]
        return Disposition.COUNTED if number <= counted else Disposition.SETTLING

    def _sample(self) -> Sample:
        chosen = (self._sampled + self._sampled_beside)[: self._sample_size]
        numbers: dict[bytes, int] = {}
        keys = []
        for _, key, disposition in chosen:
            if key not in numbers:
                counts = self._kept_beside.get(key)
                numbers[key] = counts[Disposition.WAIVED] if counts and disposition is Disposition.COUNTED else 0
            numbers[key] += 1
            keys.append(numbered(key.hex(), numbers[key]))
        masked = frozenset(name for name, safe in zip(self._names, self._safe, strict=True) if not safe)
        return Sample(
            columns=self._names,
            rows=tuple(row for row, _, _ in chosen),
            keys=tuple(keys),
            # What a row that does not count is; the ledger says what is known of one that does.
            novelties=tuple("" if one is Disposition.COUNTED else one.value for _, _, one in chosen)
            if self._sampled_beside
            else (),
            masked=masked,
        )

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
