"""Signals are heard once, in order, whatever thread they reach and whatever the main thread is doing."""

from __future__ import annotations

import os
import signal
import threading

from holdtrue.cli.signals import Signals, Stopping


def test_each_signal_is_heard_once_and_in_order() -> None:
    with Signals(signal.SIGHUP, signal.SIGTERM) as signals:
        os.kill(os.getpid(), signal.SIGHUP)
        assert signals.next(30) == signal.SIGHUP
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.next(30) == signal.SIGTERM
        assert signals.next(0) is None


def test_a_signal_given_to_another_thread_is_heard_by_the_one_that_waits() -> None:
    blocked = threading.Event()
    with Signals(signal.SIGTERM) as signals:

        def send() -> None:
            blocked.wait(30)
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

        thread = threading.Thread(target=send)
        thread.start()
        blocked.set()
        assert signals.next(30) == signal.SIGTERM
        thread.join()


def test_a_storm_of_signals_loses_none_that_matters() -> None:
    """A handler that took a lock would deadlock here sooner or later."""
    with Signals(signal.SIGHUP, signal.SIGTERM) as signals:
        stopping = Stopping(signals)
        for _ in range(200):
            os.kill(os.getpid(), signal.SIGHUP)
            assert stopping.wait(30)
        assert stopping.is_set()


def test_the_former_handlers_are_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Signals(signal.SIGTERM):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) == before


def test_nobody_asked_to_stop() -> None:
    with Signals(signal.SIGTERM) as signals:
        assert not Stopping(signals).wait(0)
