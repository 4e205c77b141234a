"""What a ticket says of its window: what proves that writers overlapped, and why a thing is not known."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.model import Deploy, Incident, NearDeploy, Position, Traces, WriterTrace
from holdtrue.model.traces import UNTRACED
from holdtrue.scaffolding import TicketContext, Writer, render
from holdtrue.scaffolding.overlaps import prove_overlap

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
INCIDENT = Incident("one_7", "one", "payments", "postgresql", "SELECT id FROM t", "rows", (), ())


def writer(xid: int | None, committed: float | None = None) -> Writer:
    return Writer(xid, None if committed is None else NOON + committed * SECOND, (f"refunds row {xid}",))


def logged(*writers: tuple[int, str, str], **more: str) -> Traces:
    found = tuple(WriterTrace(*one) for one in writers)
    return Traces(**{"commit_times": "kept", "log": "read from 0/10 to 0/90", "since": "0/10", **more}, writers=found)


@pytest.mark.parametrize(
    ("writers", "traces", "said"),
    [
        ([writer(740, 2), writer(741, 1)], Traces(), "proved by commit order: 740 began to write before 741"),
        (
            [writer(740), writer(741)],
            logged((740, "0/20", "0/40"), (741, "0/30", "0/50")),
            "proved by the log: 741 first wrote at 0/30 and committed at 0/50, 740 committed between, at 0/40",
        ),
        (
            [writer(740), writer(741)],
            logged((740, "", "0/50"), (741, "0/30", "0/40")),
            "proved by the log: 740 first wrote before 0/10 and committed at 0/50",
        ),
        (
            [writer(740, 1), writer(741, 2)],
            logged((740, "0/20", "0/30"), (741, "0/40", "0/50")),
            "the commits are in the order of the ids, which proves nothing; in the log none wrote before another one committed",
        ),
        (
            [writer(740), writer(741)],
            Traces("not kept: track_commit_timestamp is off", "not read: the extension pg_walinspect is not installed"),
            "extension pg_walinspect is not installed; nor is it known that they are several: a savepoint has an id of its own",
        ),
        (
            [writer(740), writer(741)],
            logged((740, "0/20", ""), (741, "0/30", "0/50")),
            "the log that was read lacks a commit",
        ),
        ([writer(740, 1)], Traces(), "not proved: one writer is known"),
        ([writer(None), writer(None)], Traces(), "not proved: no writer is known"),
        ([], Traces(), "not proved: no writer is known"),
        (
            [writer(740, 1), writer(741, 1)],
            Traces("kept"),
            "740, 741: one commit, most likely one transaction with savepoints; perhaps no race",
        ),
        (
            [writer(740, 1), writer(741, 1)],
            logged((740, "0/20", "0/40"), (741, "0/30", "0/40")),
            "not proved: one writer is known: 740, 741: one commit by the log, so one transaction with savepoints",
        ),
        (
            # One microsecond, and two commit records: the log is the proof.
            [writer(740, 1), writer(741, 1)],
            logged((740, "0/20", "0/40"), (741, "0/30", "0/50")),
            "proved by the log: 741 first wrote at 0/30",
        ),
        (
            [writer(740, 1), writer(741, 2), writer(742, 1)],
            Traces("kept"),
            "proved by commit order: 741 began to write before 742 and committed after it",
        ),
        ([writer(740, 1), writer(741)], Traces("kept"), "a commit is older than the server's commit times"),
    ],
)
def test_an_overlap_is_proved_or_it_is_said_why_not(writers: list[Writer], traces: Traces, said: str) -> None:
    assert said in prove_overlap(writers, traces)


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(1, 30), st.integers(0, 30), st.booleans()), min_size=2, max_size=4
    )
)
def test_what_is_proved_is_true_of_what_really_happened(spans: list[tuple[int, int, int, bool]]) -> None:
    """Each transaction wrote first at some place of the log, and committed later; ids were given at the first write."""
    begun: list[tuple[int, int, int]] = []
    for first, length, _, _ in sorted(spans):
        start = 2 * first + 1
        if any(start == other for other, _, _ in begun):
            return
        begun.append((start, start + 2 * length + 1, 100 + len(begun)))
    if len({end for _, end, _ in begun}) < len(begun):
        return
    since = spans[0][2] * 2
    writers = [writer(xid, end if spans[0][3] else None) for _, end, xid in begun]
    # What lies before the place where the reading began is not seen.
    traces = Traces(
        "kept",
        since=f"0/{since:X}",
        writers=tuple(
            WriterTrace(xid, f"0/{start:X}" if start >= since else "", f"0/{end:X}" if end >= since else "")
            for start, end, xid in begun
        ),
    )
    really = any(one[0] < other[1] and other[0] < one[1] for one, other in permutations(begun, 2))
    if prove_overlap(writers, traces).startswith("proved"):
        assert really


def context(**changes: Any) -> TicketContext:
    given: dict[str, Any] = {
        "alert": 7,
        "created_at": NOON,
        "created_by": "ana",
        "first_bad": Position("r1", NOON, "standby", "7312", 1, "0/90", "742:742:"),
        "first_bad_at": NOON,
        "last_good": Position("r1", NOON - 900 * SECOND, "standby", "7312", 1, "0/10", "740:742:", (740,)),
        "last_good_at": NOON - 900 * SECOND,
        "writers": (writer(740, 2.000003), writer(741, 1)),
        "definition": "d" * 64,
        "generation": 3,
        "traces": logged((740, "", "0/50"), (741, "0/30", "0/40")),
    }
    return TicketContext(**{**given, **changes})


def header_of(made: TicketContext) -> str:
    return render(INCIDENT, made)["test_incident_one_7.py"].split('"""')[1]


def record_of(made: TicketContext) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(render(INCIDENT, made)["ticket.json"])
    return record


def test_the_header_says_all_that_is_known() -> None:
    deploy = Deploy("payments", "1.4.2", NOON - 1080 * SECOND, "ci (token)", NOON)
    header = header_of(context(deploys=(NearDeploy(deploy, "3m before the window"),)))
    for line in (
        "window           2026-11-29T11:45:00Z to 2026-11-29T12:00:00Z (15m)",
        "first bad run    2026-11-29T12:00:00Z replica r1 LSN 0/90 snapshot 742:742:",
        "last good run    2026-11-29T11:45:00Z replica r1 LSN 0/10 snapshot 740:742: in progress 740",
        "writer           transaction 740, committed 2026-11-29T12:00:02.000003Z, first record before 0/10, commit 0/50: ",
        "writer           transaction 741, committed 2026-11-29T12:00:01.000000Z, first record 0/30, commit 0/40: refunds",
        "overlap          proved by commit order: 740 began to write before 741 and committed after it",
        "commit times     kept",
        "server's log     read from 0/10 to 0/90",
        f"definition       {'d' * 64}, catalog generation 3",
        "deploy           deployed payments 1.4.2, 3m before the window (2026-11-29T11:42:00Z, by ci (token))",
    ):
        assert line in header


SAID = "740, 741: one commit, most likely one transaction with savepoints; perhaps no race"


def test_two_savepoints_of_one_commit_are_told_as_one_writer_in_every_file() -> None:
    """Each savepoint has an id of its own, and one transaction is no race (semantics 9.3)."""
    made = context(writers=(writer(740, 1), writer(741, 1)), traces=Traces("kept", "not read: no extension"))
    files = render(INCIDENT, made)
    test = files["test_incident_one_7.py"]
    assert f"writer           {SAID}, committed 2026-11-29T12:00:01.000000Z: refunds row 740, refunds row 741\n" in test
    assert f"overlap          not proved: one writer is known: {SAID}\n" in test
    for party in ("run_a", "run_b"):
        assert f"wire {party} to the code that wrote refunds row 740, refunds row 741 ({SAID})" in test
    assert "## Savepoints" in files["README.md"]
    assert f"- {SAID}\n" in files["README.md"]
    record = record_of(made)
    assert [one["transaction"] for one in record["writers"]] == [740, 741]
    assert record["commits"] == [
        {
            "transactions": [740, 741],
            "committed_at": "2026-11-29T12:00:01.000000Z",
            "rows": ["refunds row 740", "refunds row 741"],
            "one_commit": "most likely, by the same microsecond",
        }
    ]


def test_the_log_proves_one_commit_and_one_beside_another_may_be_a_race() -> None:
    traces = logged((740, "0/20", "0/40"), (741, "0/30", "0/40"), (742, "0/50", "0/60"))
    made = context(writers=(writer(740), writer(742), writer(741)), traces=traces)
    said = "740, 741: one commit by the log, so one transaction with savepoints"
    assert f"writer           {said}, commit time not known, first record 0/20, commit 0/40: refunds" in header_of(made)
    test = render(INCIDENT, made)["test_incident_one_7.py"]
    assert f"wire run_a to the code that wrote refunds row 740, refunds row 741 ({said})" in test
    assert "wire run_b to the code that wrote refunds row 742 (transaction 742)" in test
    assert [one["one_commit"] for one in record_of(made)["commits"]] == ["proved by the log", None]
    assert "perhaps no race" not in "".join(render(INCIDENT, made).values())


def test_without_commit_times_and_log_neither_one_nor_two_commits_are_claimed() -> None:
    made = context(writers=(writer(740), writer(741)), traces=Traces())
    assert "one commit" not in "".join(one for name, one in render(INCIDENT, made).items() if name != "ticket.json")
    assert [one["one_commit"] for one in record_of(made)["commits"]] == [None, None]
    assert "nor is it known that they are several: a savepoint has an id of its own" in header_of(made)


def test_the_header_says_what_is_not_known_and_why() -> None:
    blind = context(
        last_good=None,
        last_good_at=None,
        first_bad=replace(context().first_bad, log_position=""),  # type: ignore[type-var]
        writers=(Writer(None, None, ("refunds row 1",)),),
        traces=Traces("not kept: track_commit_timestamp is off", "not read: no run before it says where to begin"),
        definition="",
        generation=0,
        deploys=None,
    )
    header = header_of(blind)
    for line in (
        "window           until 2026-11-29T12:00:00Z; no run before it says since when",
        "log position not kept",
        "last good run    no run before it",
        "writer           not known, commit time not known: refunds row 1",
        "overlap          not proved: no writer is known",
        "commit times     not kept: track_commit_timestamp is off",
        "server's log     not read: no run before it says where to begin",
        "definition       not recorded, catalog generation not recorded",
        "deploys          not known: nobody told of any",
    ):
        assert line in header
    assert "deploys          none was told of in the window or the day before it" in header_of(context(deploys=()))


def test_a_server_that_keeps_no_writers_is_said_to_keep_none() -> None:
    files = render(replace(INCIDENT, engine="mysql"), context(traces=UNTRACED, writers=(Writer(None, None, ("a",)),)))
    assert (
        "commit times     not kept: mysql tells of no row which transaction wrote it" in files["test_incident_one_7.py"]
    )
    assert json.loads(files["ticket.json"])["log"] == "not read: only that of PostgreSQL is"
    assert "GTID 0/90" in files["test_incident_one_7.py"]


def test_the_record_has_null_for_what_is_not_known() -> None:
    record = record_of(context(last_good=None, last_good_at=None, generation=0, deploys=None))
    assert record["window"] == {"last_good": None, "first_bad": "2026-11-29T12:00:00Z"}
    assert record["positions"]["last_good"] is None
    assert record["positions"]["first_bad"]["lsn"] == "0/90"
    assert record["positions"]["first_bad"]["in_progress"] is None
    assert (record["generation"], record["deploys"]) == (None, None)
    assert record["writers"][0]["first_record"] is None
    assert record["writers"][0]["commit_record"] == "0/50"
    assert record_of(context(deploys=()))["deploys"] == []


HOSTILE = '"""\nimport os; os.system(\'x\')\n{x} %(x)s \\N{BULLET}'


def test_a_deploy_that_a_stranger_told_stays_text_in_the_test_and_in_the_record() -> None:
    deploy = Deploy(HOSTILE, HOSTILE, NOON, HOSTILE, NOON)
    made = context(deploys=(NearDeploy(deploy, "in the window"),), definition=HOSTILE)
    compile(render(INCIDENT, made)["test_incident_one_7.py"], "t", "exec")
    assert record_of(made)["deploys"][0]["service"] == HOSTILE
