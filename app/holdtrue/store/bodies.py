"""what a column keeps as one JSON text: words, positions, samples, evidence"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from holdtrue.model import Evidence, EvidenceRow, MatchedField, Matcher, Matching, Position, Sample, Traces, WriterTrace
from holdtrue.store.columns import moment_text

_ENCODER = json.JSONEncoder(separators=(",", ":"))


def json_text(value: object) -> str:
    """Compact JSON in ASCII: whatever characters a value has, the text can be kept."""
    return _ENCODER.encode(value)


def words_text(words: Iterable[str]) -> str:
    """A tuple of words as one JSON text; nothing for none."""
    listed = list(words)
    return json_text(listed) if listed else ""


def words_of(text: str) -> tuple[str, ...]:
    """The words again."""
    return tuple(json.loads(text)) if text else ()


def matchers_text(matchers: Iterable[Matcher]) -> str:
    """Matchers as a JSON list of (field, comparison, value)."""
    return json_text([[one.field.value, one.matching.value, one.value] for one in matchers])


def matchers_of(text: str) -> tuple[Matcher, ...]:
    """The matchers again."""
    return tuple(Matcher(MatchedField(field), Matching(sign), value) for field, sign, value in json.loads(text))


def position_text(position: Position | None) -> str | None:
    """A position as a JSON list, in the order of its fields."""
    if position is None:
        return None
    return json_text(
        [
            position.replica,
            moment_text(position.moment),
            position.role,
            position.system,
            position.timeline,
            position.log_position,
            position.snapshot,
            None if position.in_progress is None else list(position.in_progress),
            None if position.lag is None else position.lag // timedelta(microseconds=1),
            position.freshness_proven,
            position.failover,
        ]
    )


def position_of(text: str | None) -> Position | None:
    """The position again."""
    if text is None:
        return None
    replica, moment, role, system, timeline, log_position, snapshot, in_progress, lag, proven, failover = json.loads(
        text
    )
    return Position(
        replica,
        datetime.fromisoformat(moment),
        role,
        system,
        timeline,
        log_position,
        snapshot,
        None if in_progress is None else tuple(in_progress),
        None if lag is None else timedelta(microseconds=lag),
        proven,
        failover,
    )


def sample_text(sample: Sample) -> str:
    """A sample as JSON."""
    return json_text(
        {
            "columns": sample.columns,
            "rows": sample.rows,
            "keys": sample.keys,
            "novelties": sample.novelties,
            "masked": sorted(sample.masked),
        }
    )


def sample_of(text: str | None) -> Sample | None:
    """The sample again."""
    if text is None:
        return None
    body = json.loads(text)
    return Sample(
        columns=tuple(body["columns"]),
        rows=tuple(tuple(row) for row in body["rows"]),
        keys=tuple(body["keys"]),
        novelties=tuple(body["novelties"]),
        masked=frozenset(body["masked"]),
    )


def evidence_text(evidence: Evidence) -> str:
    """Evidence as JSON."""
    return json_text(
        {
            "violation_columns": evidence.violation_columns,
            "violation": evidence.violation,
            "rows": [
                {
                    "table": row.table,
                    "columns": row.columns,
                    "values": row.values,
                    "types": row.types,
                    "is_parent": row.is_parent,
                    "xid": row.xid,
                    "committed_at": None if row.committed_at is None else moment_text(row.committed_at),
                }
                for row in evidence.rows
            ],
            "position": position_text(evidence.position),
            "schema_sql": evidence.schema_sql,
            "left_out": evidence.left_out,
            "pseudonymised": evidence.pseudonymised,
            "incomplete": evidence.incomplete,
            "traces": _traces_data(evidence.traces),
        }
    )


def evidence_of(key: str, text: str) -> Evidence:
    """The evidence again."""
    body = json.loads(text)
    position = position_of(body["position"])
    assert position is not None  # noqa: S101 - evidence_text always writes one
    return Evidence(
        key=key,
        violation_columns=tuple(body["violation_columns"]),
        violation=tuple(body["violation"]),
        rows=tuple(
            EvidenceRow(
                table=row["table"],
                columns=tuple(row["columns"]),
                values=tuple(row["values"]),
                types=tuple(row["types"]),
                is_parent=row["is_parent"],
                xid=row["xid"],
                committed_at=None if row["committed_at"] is None else datetime.fromisoformat(row["committed_at"]),
            )
            for row in body["rows"]
        ),
        position=position,
        schema_sql=body["schema_sql"],
        left_out=tuple(body["left_out"]),
        pseudonymised=tuple(body["pseudonymised"]),
        incomplete=body["incomplete"],
        traces=_traces_of(body.get("traces")),
    )


def _traces_data(traces: Traces) -> dict[str, object]:
    return {
        "commit_times": traces.commit_times,
        "log": traces.log,
        "since": traces.since,
        "writers": [[one.xid, one.first, one.committed] for one in traces.writers],
    }


def _traces_of(data: dict[str, Any] | None) -> Traces:
    """What was kept by a version that did not ask says so."""
    if data is None:
        return Traces()
    writers = tuple(WriterTrace(xid, first, committed) for xid, first, committed in data["writers"])
    return Traces(data["commit_times"], data["log"], data["since"], writers)
