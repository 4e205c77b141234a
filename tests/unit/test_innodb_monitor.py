"""Who waits is read from the InnoDB monitor, in which statements stand with all that they say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdtrue.testing.mariadb_blocking import Standing, read_monitor

MONITOR = """
------------
TRANSACTIONS
------------
LIST OF TRANSACTIONS FOR EACH SESSION:
---TRANSACTION 22, ACTIVE 0 sec starting index read
mysql tables in use 1, locked 1
LOCK WAIT 2 lock struct(s), heap size 1128, 1 row lock(s)
MariaDB thread id 10, OS thread handle 131309774464704, query id 29 127.0.0.1 admin Updating
{text}
------- TRX HAS BEEN WAITING 571733 us FOR THIS LOCK TO BE GRANTED:
RECORD LOCKS space id 5 page no 3 n bits 320 index PRIMARY of table `x`.`t` trx id 22 lock_mode X waiting
---TRANSACTION (0x7f6d0c008b80), ACTIVE 3 sec
2 lock struct(s), heap size 1128, 1 row lock(s)
MySQL thread id 9, OS thread handle 131309774771904, query id 27 127.0.0.1 admin
---TRANSACTION (0x7f6d0c008b80), not started
0 lock struct(s), heap size 1128, 0 row lock(s)
--------
FILE I/O
--------
"""
EXPECTED = {10: Standing("22", active=True, waits=True), 9: Standing("(0x7f6d0c008b80)", active=True, waits=False)}


def test_sessions_are_found_with_their_transactions() -> None:
    assert read_monitor(MONITOR) == EXPECTED


def test_a_monitor_that_lists_nothing_says_that_nobody_waits() -> None:
    assert read_monitor("END OF INNODB MONITOR OUTPUT") == {}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_a_statement_says_is_never_taken_for_a_session_that_was_found(text: str) -> None:
    found = read_monitor(MONITOR.replace("{text}", text))
    assert {pid: found[pid] for pid in EXPECTED} == EXPECTED


def test_a_statement_that_looks_like_a_session_does_not_replace_one() -> None:
    text = "---TRANSACTION 1, not started\nMariaDB thread id 10, OS thread handle 1"
    assert read_monitor(MONITOR.replace("{text}", text)) == EXPECTED
