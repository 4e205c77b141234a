"""customers, night runs and workers: what makes the service's operations overlap"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, insert, select

from holdtrue.demo import schema, service
from holdtrue.demo.provider import Provider
from holdtrue.demo.tools import Tools

URL_VARIABLE = "HOLDTRUE_DEMO_DATABASE"
WAITING = 40
ACCOUNTS = ("acc_1", "acc_2", "acc_3")


@dataclass
class Operations:
    """The operations that the traffic calls: the racy ones, until somebody deploys a fix."""

    issue_refund: Callable[[Engine, Provider, str, int], str] = service.issue_refund
    credit_account: Callable[[Engine, str, int], object] = service.credit_account
    attach_receipt: Callable[[Engine, Path, str, bytes], str] = service.attach_receipt


@dataclass
class Traffic:
    """Plays turns until it is told to stop. Which turns it plays is drawn from ``seed``; how they overlap is not.

    Every turn is ordinary work. That some of it breaks an invariant is the operations' doing: turned into their fixed
    twins, the same turns break nothing.
    """

    engine: Engine
    url: str
    receipts: Path
    seed: int = 0
    provider: Provider = field(default_factory=Provider)
    operations: Operations = field(default_factory=Operations)
    pace: float = 0.4
    limit: float = 0.2
    stopping: threading.Event = field(default_factory=threading.Event)
    problems: list[BaseException] = field(default_factory=list)
    _waiting: deque[str] = field(default_factory=deque)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def prepare(self) -> None:
        """Make the accounts, unless they are there from an earlier time, and the disputes that wait for a refund."""
        self.receipts.mkdir(parents=True, exist_ok=True)
        with self.engine.begin() as connection:
            known = set(connection.execute(select(schema.accounts.c.id)).scalars())
            new = [{"id": one, "credit_balance_eur": 0} for one in ACCOUNTS if one not in known]
            if new:
                connection.execute(insert(schema.accounts), new)
        for _ in range(WAITING):
            self._open_dispute()

    def run(self) -> None:
        """Play turns until `stopping` is set; every call that was begun is over when this returns."""
        draws = random.Random(self.seed)  # noqa: S311  a plan, no secret
        with ThreadPoolExecutor(32, "demo") as pool, ThreadPoolExecutor(8, "demo-turn") as turns:
            tools = Tools(pool, self.limit)
            playing: set[Future[None]] = set()
            while not self.stopping.is_set():
                kind = draws.choices(("refund", "credits", "receipt", "job"), (4, 2, 2, 1))[0]
                playing = {turn for turn in playing if not turn.done()}
                if len(playing) < 8:  # a slow machine makes the traffic thinner, never a queue without end
                    playing.add(turns.submit(self._play, kind, tools, draws.randint(10, 90)))
                self._list_receipts()
                self.stopping.wait(self.pace)

    def start(self) -> threading.Thread:
        """Run on a thread of its own; set `stopping` and join it."""
        thread = threading.Thread(target=self.run, name="demo-traffic")
        thread.start()
        return thread

    def refund(self, tools: Tools, amount_eur: int) -> str:
        """The refund of the dispute that waits longest is issued, twice if the provider is slow; the dispute.

        Another customer disputes a payment meanwhile.
        """
        dispute_id = self._waiting.popleft()
        self._open_dispute()
        self._settle(tools.call(self.operations.issue_refund, self.engine, self.provider, dispute_id, amount_eur))
        return dispute_id

    def credits(self, pool: ThreadPoolExecutor, amount_eur: int, calls: int = 4) -> str:
        """The night run credits an account several times at once; the account."""
        account_id = self._account()
        self._settle(
            tuple(
                pool.submit(self.operations.credit_account, self.engine, account_id, amount_eur) for _ in range(calls)
            )
        )
        return account_id

    def receipt(self, pool: ThreadPoolExecutor, amount_eur: int) -> str:
        """An invoice's receipt is sent by two browser tabs at once; the invoice."""
        invoice_id = self._name("inv")
        service.open_invoice(self.engine, invoice_id, self._account(), amount_eur)
        content = f"Receipt of {amount_eur} EUR for {invoice_id}\n".encode()
        attach = self.operations.attach_receipt
        self._settle([pool.submit(attach, self.engine, self.receipts, invoice_id, content) for _ in range(2)])
        return invoice_id

    def job(self, *, dies: bool) -> str | None:
        """A worker process takes a job; it does it, or the machine takes the process away meanwhile. The job it took."""
        service.accept_job(self.engine, self._name("job"))
        worker = subprocess.Popen(  # noqa: S603  ourselves
            [sys.executable, "-m", "holdtrue.demo.worker", URL_VARIABLE, "30" if dies else "0.1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, URL_VARIABLE: self.url},
            text=True,
            start_new_session=True,  # a Ctrl-C ends the demo, and the demo ends its workers
        )
        try:
            assert worker.stdout is not None  # noqa: S101  it is a pipe
            taken = worker.stdout.readline().strip() or None
            if dies:
                worker.send_signal(signal.SIGKILL)
            worker.wait(timeout=30)
        finally:
            if worker.poll() is None:
                worker.kill()
                worker.wait()
            if worker.stdout is not None:
                worker.stdout.close()
        return taken

    def _play(self, kind: str, tools: Tools, amount_eur: int) -> None:
        try:
            if kind == "refund":
                self.refund(tools, amount_eur)
            elif kind == "credits":
                self.credits(tools.pool, amount_eur)
            elif kind == "receipt":
                self.receipt(tools.pool, amount_eur)
            else:
                self.job(dies=amount_eur % 2 == 0)
        except Exception as problem:  # noqa: BLE001  a turn's error is a finding, and the traffic goes on
            self.problems.append(problem)

    def _open_dispute(self) -> None:
        dispute_id = self._name("dsp")
        service.open_dispute(self.engine, dispute_id, self._account(), 40)
        self._waiting.append(dispute_id)

    def _settle(self, calls: Sequence[Future[Any]]) -> None:
        done = wait(calls).done
        self.problems.extend(problem for call in done if (problem := call.exception()) is not None)

    def _list_receipts(self) -> None:
        try:
            service.list_receipts(self.engine, self.receipts)
        except Exception as problem:  # noqa: BLE001  the listing is tried again next time
            self.problems.append(problem)

    def _name(self, prefix: str) -> str:
        return f"{prefix}_{datetime.now(UTC):%H%M%S}_{next(self._numbers)}"

    def _account(self) -> str:
        return ACCOUNTS[next(self._numbers) % len(ACCOUNTS)]
