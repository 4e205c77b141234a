"""a thread for each party where Django's asynchronous code runs what is synchronous; asgiref has one for the whole process

A server gives each request a thread of its own for that. With the one of the process the second party would wait for the
first that is held, in racy code and in right code alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from holdtrue.testing.adapters.patching import patched
from holdtrue.testing.parties import Party, current_party


@contextmanager
def a_thread_for_each_party() -> Iterator[None]:
    """While the block runs, unless the code under test says itself which thread to use."""
    from asgiref.sync import SyncToAsync, ThreadSensitiveContext  # Django brings it

    threads: dict[Party, ThreadSensitiveContext] = {}

    def calling(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        async def call(of: Any, *args: Any, **options: Any) -> Any:
            party = current_party.get()
            chosen = SyncToAsync.thread_sensitive_context
            if party is None or chosen.get(None) is not None:
                return await original(of, *args, **options)
            token = chosen.set(threads.setdefault(party, ThreadSensitiveContext()))
            try:
                return await original(of, *args, **options)
            finally:
                chosen.reset(token)

        return call

    try:
        with patched(SyncToAsync, "__call__", calling):
            yield
    finally:
        for one in threads.values():
            executor = SyncToAsync.context_to_thread_executor.pop(one, None)
            if executor is not None:
                executor.shutdown(wait=False)
