"""The demo's races are real: the operations break their invariants by themselves, and their fixed twins do not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from sqlalchemy import Engine, event, text

from holdtrue.demo import fixes, provider, schema, service
from holdtrue.demo.tools import Tools
from holdtrue.demo.traffic import Operations, Traffic

LIMIT = 30.0
FIXED = Operations(fixes.issue_refund, fixes.credit_account, fixes.attach_receipt)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/refunds.db"
    database = request.getfixturevalue("postgres_database")
    return str(database.primary.url(database.name))


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = schema.open_engine(url)
    schema.create(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def traffic(engine: Engine, url: str, tmp_path: Path) -> Traffic:
    traffic = Traffic(engine, url, tmp_path / "receipts", pace=0.02)
    traffic.prepare()
    return traffic


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def invariant(name: str) -> str:
    folder = Path(str(schema.__file__)).parent / "invariants"
    entries = yaml.safe_load((folder / "refunds.yaml").read_text())["invariants"]
    return str(next(one["sql"] for one in entries if one["name"] == name))


def broken(engine: Engine, name: str) -> list[tuple[object, ...]]:
    """The rows that break the invariant; for a count, one row if it is above zero."""
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(text(invariant(name)))]
    return [row for row in rows if row != (0,)]


def until_broken(engine: Engine, name: str, play: Callable[[], object]) -> list[tuple[object, ...]]:
    deadline = time.monotonic() + LIMIT
    while not (rows := broken(engine, name)):
        assert time.monotonic() < deadline, f"{name} was never broken"
        play()
    return rows


class SlowOnce:
    """A provider whose first answer comes only after the second capture: later than anybody waits."""

    def __init__(self) -> None:
        self.second = threading.Event()
        self.calls: list[str] = []

    def capture(self, dispute_id: str, amount_eur: int) -> str:
        self.calls.append(dispute_id)
        if len(self.calls) == 1:
            assert self.second.wait(LIMIT), "nobody called again"
        self.second.set()
        return f"cap_{len(self.calls)}"


def refund_through_a_time_limit(engine: Engine, operation: Callable[..., str], pool: ThreadPoolExecutor) -> list[str]:
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO accounts (id, credit_balance_eur) VALUES ('acc', 0)"))
    service.open_dispute(engine, "dsp_1", "acc", 40)
    slow = SlowOnce()
    calls = Tools(pool, limit=0.05).call(operation, engine, slow, "dsp_1", 40)  # type: ignore[arg-type]
    assert len(calls) == 2, "the first call answered in time"
    slow.second.wait(0.2)
    slow.second.set()  # a fixed operation pays once: nobody else would let the first one go on
    return [call.result(LIMIT) for call in calls]


def test_a_refund_that_is_issued_again_while_the_first_is_in_flight_settles_twice(
    engine: Engine, pool: ThreadPoolExecutor
) -> None:
    assert refund_through_a_time_limit(engine, service.issue_refund, pool) == ["settled", "settled"]
    rows = broken(engine, "one_settled_refund_per_dispute")
    assert [row[:2] for row in rows] == [("dsp_1", 2)]


def test_the_claimed_refund_settles_once_however_late_the_provider_answers(
    engine: Engine, pool: ThreadPoolExecutor
) -> None:
    schema.forbid_second_refunds(engine)
    assert refund_through_a_time_limit(engine, fixes.issue_refund, pool) == ["settled", "already settled"]
    assert broken(engine, "one_settled_refund_per_dispute") == []


def test_the_locked_refund_settles_once_however_late_the_provider_answers(
    engine: Engine, pool: ThreadPoolExecutor
) -> None:
    assert refund_through_a_time_limit(engine, fixes.issue_refund_locked, pool) == ["settled", "already settled"]
    assert broken(engine, "one_settled_refund_per_dispute") == []


@pytest.mark.parametrize("operation", [service.issue_refund, fixes.issue_refund_locked])
def test_a_second_call_after_the_first_is_over_refunds_nothing(engine: Engine, operation: Callable[..., str]) -> None:
    """Semantics 9.5: the operation is right in series, so what breaks it is a race."""
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO accounts (id, credit_balance_eur) VALUES ('acc', 0)"))
    service.open_dispute(engine, "dsp_1", "acc", 40)
    answers = [operation(engine, provider.instant(), "dsp_1", 40) for _ in range(2)]
    assert answers == ["settled", "already settled"]
    assert broken(engine, "one_settled_refund_per_dispute") == []


def test_credits_at_the_same_time_lose_an_update_against_the_log(traffic: Traffic, pool: ThreadPoolExecutor) -> None:
    rows = until_broken(traffic.engine, "credit_balance_equals_its_log", lambda: traffic.credits(pool, 10))
    assert all(balance < logged for _account, balance, logged in rows)  # type: ignore[operator]


def test_atomic_credits_lose_nothing(traffic: Traffic, pool: ThreadPoolExecutor) -> None:
    traffic.operations = FIXED
    for _ in range(6):
        traffic.credits(pool, 10)
    assert traffic.problems == []
    assert broken(traffic.engine, "credit_balance_equals_its_log") == []


def test_a_killed_worker_leaves_its_job_in_progress_under_a_dead_lease(traffic: Traffic) -> None:
    taken = traffic.job(dies=True)
    assert taken is not None
    rows = until_broken(traffic.engine, "no_job_left_in_progress", lambda: threading.Event().wait(0.1))
    assert rows == [(1,)]
    assert fixes.abandon_dead_jobs(traffic.engine) == 1
    assert broken(traffic.engine, "no_job_left_in_progress") == []


def test_a_worker_that_lives_finishes_its_job(traffic: Traffic) -> None:
    taken = traffic.job(dies=False)
    with traffic.engine.connect() as connection:
        assert connection.execute(text("SELECT job_id, state FROM jobs")).all() == [(taken, "done")]


def test_two_uploads_for_one_invoice_leave_a_file_that_belongs_to_nobody(
    traffic: Traffic, pool: ThreadPoolExecutor
) -> None:
    def play() -> None:
        traffic.receipt(pool, 20)
        service.list_receipts(traffic.engine, traffic.receipts)

    rows = until_broken(traffic.engine, "every_receipt_has_one_invoice", play)
    assert {row[1] for row in rows} == {"in the bucket, but not on exactly one invoice"}
    assert fixes.sweep_receipts(traffic.engine, traffic.receipts) > 0
    service.list_receipts(traffic.engine, traffic.receipts)
    assert broken(traffic.engine, "every_receipt_has_one_invoice") == []


def test_a_receipt_that_was_deleted_from_the_folder_is_found_by_its_invoice(
    traffic: Traffic, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic.operations = FIXED
    traffic.receipt(pool, 20)
    for file in traffic.receipts.iterdir():
        file.unlink()
    monkeypatch.setattr(service, "SETTLED_AFTER", service.SETTLED_AFTER * 0)
    service.list_receipts(traffic.engine, traffic.receipts)
    assert [row[1] for row in broken(traffic.engine, "every_receipt_has_one_invoice")] == [
        "on an invoice, but not in the bucket"
    ]


def test_claimed_uploads_leave_one_file_for_each_invoice(
    traffic: Traffic, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic.operations = FIXED
    for _ in range(4):
        traffic.receipt(pool, 20)
    monkeypatch.setattr(service, "SETTLED_AFTER", service.SETTLED_AFTER * 0)
    assert service.list_receipts(traffic.engine, traffic.receipts) == 4
    assert traffic.problems == []
    assert broken(traffic.engine, "every_receipt_has_one_invoice") == []


def test_the_traffic_alone_breaks_every_invariant_within_a_minute(traffic: Traffic) -> None:
    names = [
        "one_settled_refund_per_dispute",
        "credit_balance_equals_its_log",
        "every_receipt_has_one_invoice",
        "no_job_left_in_progress",
    ]
    traffic.pace = 0.2
    thread = traffic.start()
    try:
        deadline = time.monotonic() + 60
        while not all(broken(traffic.engine, name) for name in names):
            assert time.monotonic() < deadline, [name for name in names if not broken(traffic.engine, name)]
            thread.join(0.2)
    finally:
        traffic.stopping.set()
        thread.join(LIMIT)
    assert traffic.problems == []


def test_the_fixed_refund_never_pays_before_it_has_claimed(engine: Engine) -> None:
    """The claim is committed before the provider is asked: a crash in between costs nobody money."""
    schema.forbid_second_refunds(engine)
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO accounts (id, credit_balance_eur) VALUES ('acc', 0)"))
    service.open_dispute(engine, "dsp_1", "acc", 40)
    steps: list[str] = []
    event.listen(engine, "commit", lambda _connection: steps.append("commit"))
    bank = provider.Provider(usual=0, slow=0, sleep=lambda _seconds: steps.append("capture"))
    fixes.issue_refund(engine, bank, "dsp_1", 40)
    assert steps == ["commit", "capture", "commit"]
