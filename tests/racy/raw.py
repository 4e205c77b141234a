"""The two bugs and their fixes in plain DB-API, for a driver and a dialect; no ORM, no engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

SETTLED = "SELECT id FROM refunds WHERE dispute_id = ? AND state = 'settled'"
INSERT = "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES (?, 40, 'settled')"
LOCK = "SELECT id FROM disputes WHERE id = ? FOR UPDATE"
BALANCE = "SELECT credit_balance_eur FROM accounts WHERE id = ?"
WRITE = "UPDATE accounts SET credit_balance_eur = ? WHERE id = ?"
ATOMIC = "UPDATE accounts SET credit_balance_eur = credit_balance_eur + ? WHERE id = ?"
_lock = threading.Lock()
LOG = "INSERT INTO credit_log (account_id, amount_eur) VALUES (?, 50)"


@dataclass(frozen=True)
class Raw:
    """Opens a connection of the driver; ``mark`` is its placeholder, ``begin`` takes the lock of the whole database at once."""

    open: Callable[[], Any]
    mark: str = "%s"
    begin: str = ""

    def text(self, sql: str) -> str:
        return sql.replace("?", self.mark)

    def work(self, body: Callable[[Any], None]) -> None:
        with closing(self.open()) as connection:
            cursor = connection.cursor()
            body(cursor)
            connection.commit()

    def duplicate(self) -> None:
        self.work(self._read_then_insert)

    def duplicate_behind_a_lock(self) -> None:
        def body(cursor: Any) -> None:
            if self.begin:
                cursor.execute(self.begin)
            else:
                cursor.execute(self.text(LOCK), ("dsp_1",))
            self._read_then_insert(cursor)

        self.work(body)

    def lost_update(self) -> None:
        self.work(lambda cursor: self._add(cursor, ""))

    def update_behind_a_lock(self) -> None:
        def body(cursor: Any) -> None:
            if self.begin:
                cursor.execute(self.begin)
            self._add(cursor, "" if self.begin else " FOR UPDATE")

        self.work(body)

    def atomic_update(self) -> None:
        def body(cursor: Any) -> None:
            cursor.execute(self.text(ATOMIC), (50, "acc_1"))
            cursor.execute(self.text(LOG), ("acc_1",))

        self.work(body)

    def duplicate_behind_a_named_lock(self) -> None:
        """MariaDB's and MySQL's lock of a session."""

        def body(cursor: Any) -> None:
            cursor.execute(self.text("SELECT GET_LOCK(?, 10)"), ("refund.dsp_1",))
            self._read_then_insert(cursor)
            cursor.connection.commit()
            cursor.execute(self.text("SELECT RELEASE_LOCK(?)"), ("refund.dsp_1",))

        self.work(body)

    def duplicate_behind_a_lock_of_the_process(self) -> None:
        with _lock:
            self.duplicate()

    def duplicate_or_nothing(self) -> None:
        """PostgreSQL's, with a unique index."""
        self.work(lambda cursor: cursor.execute(self.text(INSERT + " ON CONFLICT DO NOTHING"), ("dsp_1",)))

    def duplicate_unless_it_is_there(self) -> None:
        """One statement, and no fix: what it does not see yet it inserts."""
        unless = f" WHERE NOT EXISTS ({SETTLED})"
        text = "INSERT INTO refunds (dispute_id, amount_eur, state) SELECT ?, 40, 'settled'" + unless
        self.work(lambda cursor: cursor.execute(self.text(text), ("dsp_1", "dsp_1")))

    def lone_duplicate(self) -> None:
        """The same on a connection that commits each statement by itself."""
        unless = f" WHERE NOT EXISTS ({SETTLED})"
        with closing(self.open()) as connection:
            cursor = connection.cursor()
            cursor.execute(
                self.text("INSERT INTO refunds (dispute_id, amount_eur, state) SELECT ?, 40, 'settled'" + unless),
                ("dsp_1", "dsp_1"),
            )

    def duplicate_ignored(self) -> None:
        self.work(lambda cursor: cursor.execute(self.text(INSERT.replace("INSERT", "INSERT IGNORE")), ("dsp_1",)))

    def _read_then_insert(self, cursor: Any) -> None:
        cursor.execute(self.text(SETTLED), ("dsp_1",))
        if cursor.fetchone() is None:
            cursor.execute(self.text(INSERT), ("dsp_1",))

    def _add(self, cursor: Any, lock: str) -> None:
        cursor.execute(self.text(BALANCE) + lock, ("acc_1",))
        (balance,) = cursor.fetchone()
        cursor.execute(self.text(WRITE), (str(Decimal(balance) + 50), "acc_1"))
        cursor.execute(self.text(LOG), ("acc_1",))
