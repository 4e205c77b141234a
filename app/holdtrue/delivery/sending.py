"""sends what is owed: a thread for each notifier, what it has claimed held while it sends"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import structlog

from holdtrue import alerting
from holdtrue.delivery.retries import Retry, decide_retry
from holdtrue.errors import NotFound, StoreError
from holdtrue.model import (
    Delivered,
    Description,
    Episode,
    Event,
    Invariant,
    Mark,
    Message,
    Parcel,
    Sample,
    Subject,
    Thread,
    Undelivered,
)
from holdtrue.notifiers import MAY_HAVE_ARRIVED, Gathering, Notifier, Outage, OutageTeller
from holdtrue.store import Store
from holdtrue.store.records import OwedMessage

log = structlog.get_logger("holdtrue.delivery")

LEASE = timedelta(seconds=30)
"""How long what an instance has claimed waits for it once it is gone: each round holds anew what is being sent."""
LONGEST_HELD = timedelta(minutes=3)
"""However often it is held anew: each call has a time limit of its own, and a thread that keeps none is not waited for."""
BATCH = 3

What = Literal["sent", "partly", "retried", "failed"]

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class _Work:
    """What one notifier's thread has claimed; a message of it may be begun while the claim ``stands``."""

    owed: Sequence[OwedMessage]
    until: float
    ends: float
    lost: frozenset[int] = frozenset()

    def stands(self, owed: OwedMessage) -> bool:
        """Whether nobody else can have claimed it."""
        return time.monotonic() < self.until and owed.message.id not in self.lost


class Delivery:
    """Sends what is owed, one thread for each notifier, so that a slow one delays no other."""

    def __init__(
        self,
        store: Store,
        notifiers: Callable[[], Mapping[str, Notifier]],
        describe: Callable[[Episode], Description],
        instance: str,
        *,
        notified: Callable[[str, What], None] | None = None,
        rng: random.Random | None = None,
        lease: timedelta = LEASE,
        longest_held: timedelta = LONGEST_HELD,
    ) -> None:
        """Wire the delivery; nothing is sent before ``round``. ``notified`` hears of every attempt's outcome."""
        self._store = store
        self._notifiers = notifiers
        self._describe = describe
        self._instance = instance
        self._notified = notified
        self._rng = rng or random.Random()  # noqa: S311 - jitter, no secret
        self._lease = lease
        self._longest_held = longest_held
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._busy: dict[str, Future[None]] = {}
        self._working: dict[str, _Work] = {}
        self._paused: dict[str, datetime] = {}
        self.outcomes: Counter[tuple[str, What]] = Counter()

    def round(self) -> int:
        """Hold what is being sent; claim for every notifier that is free, and say how many messages its thread was handed.

        Raises:
            StoreError: the store did not answer; what is owed stays owed.
        """
        if self._stopped.is_set():
            return 0
        self._hold_on()
        free = self._free()
        if not free:
            return 0
        began = time.monotonic()
        built = self._notifiers()
        tellers: dict[str, OutageTeller] = {}
        for name in free:
            notifier = built.get(name)
            if isinstance(notifier, OutageTeller):
                tellers[name] = notifier
        claimed = self._store.outbox.claim(
            instance=self._instance,
            limit=BATCH,
            ttl=self._lease,
            notifiers=free,
            gathering=[name for name, one in tellers.items() if isinstance(one, Gathering)],
            darkening=list(tellers),
            editing=[name for name, one in tellers.items() if one.edits],
        )
        by_notifier: dict[str, list[OwedMessage]] = {}
        for owed in claimed:
            by_notifier.setdefault(owed.message.notifier, []).append(owed)
        with self._lock:
            for name, mine in by_notifier.items():
                work = _Work(mine, began + self._lease.total_seconds(), began + self._longest_held.total_seconds())
                self._working[name] = work
                self._busy[name] = self._thread(name).submit(self._send_all, name, work)
        return len(claimed)

    def _hold_on(self) -> None:
        """Hold what is being sent for another lease: one that is gone, or frozen, holds nothing, and another one sends it."""
        began = time.monotonic()
        with self._lock:
            busy = [one for name, one in self._working.items() if not self._busy[name].done() and began < one.ends]
        if not busy:
            return
        claimed = [owed.message for one in busy for owed in one.owed]
        lost = frozenset({one.id for one in claimed} - self._store.outbox.hold(claimed, self._lease))
        for work in busy:
            # What has been marked by now is lost too: it is not begun again.
            work.lost |= lost
            work.until = began + self._lease.total_seconds()

    def wait_until_idle(self, within: float) -> bool:
        """Wait for the messages under way; False if some still are after ``within`` seconds."""
        with self._lock:
            running = list(self._busy.values())
        return not wait(running, timeout=within).not_done

    def stop(self, grace: float = 5.0) -> None:
        """Send nothing new; give back what is claimed and not begun; wait ``grace`` seconds for what is under way."""
        self._stopped.set()
        self.wait_until_idle(grace)
        with self._lock:
            for one in self._threads.values():
                one.shutdown(wait=False, cancel_futures=True)

    def _free(self) -> list[str]:
        names = self._notifiers()
        with self._lock:
            for name in tuple(self._threads):
                # One that left the catalog: its thread would wait for ever.
                if name not in names and (name not in self._busy or self._busy[name].done()):
                    self._threads.pop(name).shutdown(wait=False)
                    self._busy.pop(name, None)
                    self._working.pop(name, None)
            return [name for name in names if name not in self._busy or self._busy[name].done()]

    def _thread(self, name: str) -> ThreadPoolExecutor:
        if name not in self._threads:
            self._threads[name] = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"deliver-{name}")
        return self._threads[name]

    def _send_all(self, name: str, work: _Work) -> None:
        for shared in _shared(work.owed):
            one = shared[0]
            try:
                if one.shares:
                    self._send_together(name, shared, work)
                else:
                    self._send(name, one, work)
            except StoreError as problem:
                # Nothing is lost: the claim ends by itself, and the message is sent again, marked as a possible repeat.
                log.warning("delivery_not_marked", notifier=name, problem=type(problem).__name__)
            except Exception as problem:  # noqa: BLE001 - one message must not take the others with it; its claim ends too
                log.error("delivery_failed", notifier=name, message=one.message.id, problem=type(problem).__name__)

    def _send_together(self, name: str, owed: Sequence[OwedMessage], work: _Work) -> None:
        """One message for all; each is marked by its own key, so each keeps its order and its end (semantics 7.4)."""
        notifier = self._notifiers().get(name)
        tell = self._telling(notifier, owed)
        began = self._store.now()
        waits = self._stopped.is_set() or self._pause_of(name) > began or not all(work.stands(one) for one in owed)
        if notifier is None or tell is None or waits:
            for one in owed:
                self._send(name, one, work)
            return
        result = tell(began)
        # They wait together for their next try, so that they share that one too.
        tried = max(owed, key=lambda one: one.message.attempts)
        after, what = self._after(name, tried, result, self._store.now())
        beside = [one.episode.id for one in owed[0].beside]
        marked = self._store.outbox.mark_all(
            [one.message for one in owed], result, after.at, beside, paused_until=after.paused_until
        )
        self._count(name, what)
        if isinstance(result, Undelivered):
            log.warning("notifications_not_sent", notifier=name, alerts=len(owed), problem=result.sentence)
        if not marked and owed[0].dark:
            told = result.thread if isinstance(result, Delivered) else None
            self._correct_outage(notifier, owed[0], told or owed[0].thread)

    def _telling(
        self, notifier: Notifier | None, owed: Sequence[OwedMessage]
    ) -> Callable[[datetime], Delivered | Undelivered] | None:
        """How all of them are told in one message; None for a kind that has no word for it."""
        one = owed[0]
        if one.dark:
            if not isinstance(notifier, OutageTeller):
                return None
            return lambda now: notifier.deliver_outage(self._outage(one, owed, one.beside, one.thread, now))
        if not isinstance(notifier, Gathering):
            return None
        if len(owed) == 1:
            # The others were taken by another instance.
            return lambda now: notifier.deliver(self._parcel(one, now))
        return lambda now: without_thread(
            notifier.deliver_group([self._parcel(other, now) for other in owed], self._unreachable())
        )

    def _outage(
        self,
        one: OwedMessage,
        news: Sequence[OwedMessage],
        beside: Sequence[OwedMessage],
        thread: Thread | None,
        now: datetime,
    ) -> Outage:
        return Outage(
            database=one.episode.database,
            news=tuple(self._parcel(other, now) for other in news),
            beside=tuple(self._parcel(other, now) for other in beside),
            thread=thread,
            unreachable=one.episode.database in self._unreachable(),
            aloud=one.aloud,
            anew=one.anew,
        )

    def _unreachable(self) -> tuple[str, ...]:
        """The databases of which no replica can be asked."""
        pairs = [(row.standing, row.unchecked) for row in self._store.reads.overview()]
        return tuple(alerting.unreachable(pairs))

    def _correct_outage(self, notifier: Notifier, one: OwedMessage, thread: Thread | None, least: int = 1) -> bool:
        """As `_correct`, of the message about a database, if at least so many stand there; whether they do."""
        if thread is None or not isinstance(notifier, OutageTeller):
            return False
        standing = self._store.outbox.standing_at(one.message.notifier, thread, one.episode.database)
        if len(standing) < least:
            return False
        notifier.redraw_outage(self._outage(one, (), standing, thread, self._store.now()))
        return True

    def _send(self, name: str, owed: OwedMessage, work: _Work) -> None:
        notifier = self._notifiers().get(name)
        began = self._store.now()
        if self._stopped.is_set() or notifier is None:
            self._store.outbox.give_back(owed.message, "not sent: stopping", began)
            return
        if self._pause_of(name) > began:
            why = "not sent: the notifier asked for a pause"
            self._store.outbox.give_back(owed.message, why, self._pause_of(name))
            return
        if not work.stands(owed):
            # Another instance may hold it by now; then this writes nothing.
            self._store.outbox.give_back(owed.message, "not sent: its turn came too late", began)
            return
        parcel = self._parcel(owed, began)
        result = as_a_proof(notifier.deliver(parcel), owed.episode)
        after, what = self._after(name, owed, result, self._store.now())
        marked = self._store.outbox.mark(owed.message, result, after.at, paused_until=after.paused_until)
        self._count(name, what)
        if isinstance(result, Undelivered):
            log.warning(
                "notification_not_sent",
                notifier=name,
                alert=owed.episode.id,
                reason=owed.message.reason.value,
                attempt=owed.message.attempts,
                problem=result.sentence,
                again=after.at is not None,
            )
        if not marked:
            told = result.thread if isinstance(result, Delivered) else None
            self._correct(notifier, owed, told or parcel.thread)

    def _after(
        self, name: str, owed: OwedMessage, result: Delivered | Undelivered, now: datetime
    ) -> tuple[Retry, What]:
        if isinstance(result, Delivered):
            return Retry(None, "sent"), "partly" if result.partly else "sent"
        message = owed.message
        with self._lock:
            retry = decide_retry(result, message.attempts, now, self._rng, owed_at=message.owed_at)
            if retry.paused_until is not None:
                # What is claimed already waits by this; the store tells whoever claims next.
                self._paused[name] = retry.paused_until
        return retry, "failed" if retry.at is None else "retried"

    def _pause_of(self, name: str) -> datetime:
        with self._lock:
            return self._paused.get(name, _NEVER)

    def _correct(self, notifier: Notifier, owed: OwedMessage, thread: Thread | None) -> None:
        """Our answer came after our claim had ended: show the newest state, since ours may lie over it (semantics 7.3)."""
        if thread is None:
            return
        # Others may have joined it meanwhile: its own end is not theirs.
        if owed.episode.subject is Subject.HEALTH and self._correct_outage(notifier, owed, thread, least=2):
            return
        try:
            detail = self._store.alerts.get(owed.episode.id)
        except NotFound:
            return
        newest = next((event for event in reversed(detail.events) if event.reason is not None), owed.event)
        sample = detail.last_run.sample if detail.last_run is not None else None
        found = self._store.alerts.situation(detail.episode.invariant, detail.episode.database)
        again = replace(
            owed,
            episode=detail.episode,
            event=newest,
            sample=sample,
            thread=thread,
            standing=found.standing,
            alert=found.alert,
        )
        result = notifier.redraw(self._parcel(again, self._store.now()))
        log.info(
            "edited_again", notifier=owed.message.notifier, alert=owed.episode.id, done=isinstance(result, Delivered)
        )

    def _parcel(self, owed: OwedMessage, now: datetime) -> Parcel:
        described = self._describe(owed.episode)
        return Parcel(
            message=_marked(owed.message),
            event=_labelled(owed.event, owed.episode),
            episode=owed.episode,
            description=described.description,
            sample=_sample(owed.sample, owed.episode),
            runbook_url=described.runbook_url,
            links=described.links,
            page_url=described.page_url,
            now=now,
            thread=owed.thread,
            health_sentence=self._sentence(owed, described.invariant, now),
        )

    @staticmethod
    def _sentence(owed: OwedMessage, invariant: Invariant | None, now: datetime) -> str:
        """The verdict at the moment of sending, with its age; nothing for a pair that has left the catalog."""
        if invariant is None:
            return ""
        return alerting.verdict(owed.standing, owed.alert, invariant, now).sentence

    def _count(self, name: str, what: What) -> None:
        with self._lock:
            self.outcomes[name, what] += 1
        if self._notified is not None:
            self._notified(name, what)


def as_a_proof(result: Delivered | Undelivered, episode: Episode) -> Delivered | Undelivered:
    """What came of a message of the canary: one that only some took proves nothing, and is no delivery (semantics 7.7)."""
    if episode.canary and isinstance(result, Delivered) and result.partly:
        return Undelivered(result.note, permanent=True)
    return result


def without_thread(result: Delivered | Undelivered) -> Delivered | Undelivered:
    """What follows in an alert of a group is a message of its own."""
    return replace(result, thread=None) if isinstance(result, Delivered) else result


def _shared(owed: Sequence[OwedMessage]) -> list[list[OwedMessage]]:
    """Those that share a message together, the others alone, in the order given."""
    found: dict[tuple[int, int], list[OwedMessage]] = {}
    for one in owed:
        found.setdefault((one.shares, 0 if one.shares else one.message.id), []).append(one)
    return list(found.values())


def _marked(message: Message) -> Message:
    """After an attempt whose answer was lost, the next one may be a repeat (semantics 7.3)."""
    if MAY_HAVE_ARRIVED not in message.problem or Mark.MAY_BE_A_REPEAT in message.marks:
        return message
    return replace(message, marks=(*message.marks, Mark.MAY_BE_A_REPEAT))


def _labelled(event: Event, episode: Episode) -> Event:
    """A round of the canary says so in whatever a notifier makes of it (semantics 7.7)."""
    return replace(event, marks=(*event.marks, Mark.CANARY)) if episode.canary else event


def _sample(sample: Sample | None, episode: Episode) -> Sample | None:
    return sample if episode.subject is Subject.VIOLATION else None
