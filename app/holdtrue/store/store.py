"""the store as a whole: one object with a part for each noun"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import select

from holdtrue.model import Retention
from holdtrue.store.accepts import Accepts
from holdtrue.store.alerts import Alerts
from holdtrue.store.audit import Audit
from holdtrue.store.canary import Canaries
from holdtrue.store.catalogs import Catalogs
from holdtrue.store.deploys import Deploys
from holdtrue.store.engine import StoreEngine
from holdtrue.store.instances import Instances, host_identity
from holdtrue.store.leases import Leases
from holdtrue.store.outbox import Outbox
from holdtrue.store.reads import Reads
from holdtrue.store.records import Hold, Pruned, no_hold
from holdtrue.store.retention import Pruning
from holdtrue.store.runs import Runs
from holdtrue.store.schema import Schema
from holdtrue.store.silences import Silences
from holdtrue.store.systems import Systems
from holdtrue.store.tickets import Tickets


class Store:
    """Our own database, for any number of threads.

    Every method raises StoreUnreachable when the database does not answer and StoreOutdated when its schema is not this
    version's; a failed write has written nothing.
    """

    def __init__(self, engine: StoreEngine, hold: Hold, host: str) -> None:
        """Use :func:`open_store`."""
        self._engine = engine
        self._schema = Schema(engine)
        self._pruning = Pruning(engine)
        self.catalogs = Catalogs(engine)
        self.leases = Leases(engine, hold)
        self.accepts = Accepts(engine)
        self.runs = Runs(engine, hold)
        self.alerts = Alerts(engine)
        self.silences = Silences(engine)
        self.deploys = Deploys(engine)
        self.outbox = Outbox(engine, hold)
        self.reads = Reads(engine)
        self.instances = Instances(engine, host)
        self.audit = Audit(engine)
        self.canary = Canaries(engine)
        self.tickets = Tickets(engine)
        self.systems = Systems(engine)

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self._engine.dialect

    def now(self) -> datetime:
        """The store's clock, which decides leases, due times and ages: the server's, or the host's for SQLite."""
        with self._engine.read() as connection:
            return self._engine.now(connection)

    def prepare(self) -> None:
        """Make the store ready for this version at a start.

        A store without a schema gets one, and a SQLite file is upgraded: it has one user. A PostgreSQL store of another
        version is refused, since other instances may be using it.
        """
        self._schema.prepare()

    def upgrade(self) -> None:
        """Run the migrations that are missing."""
        self._schema.upgrade()

    def require_current(self) -> None:
        """Raise StoreOutdated unless the schema is the one this version speaks."""
        self._schema.require_current()

    def check(self) -> tuple[str, ...]:
        """Every problem of the schema and, on SQLite, of the file; empty if all is well."""
        return self._schema.check()

    def ping(self) -> None:
        """Ask the store for an answer."""
        with self._engine.read() as connection:
            connection.execute(select(1))

    def prune(self, retention: Retention, now: datetime | None = None) -> Pruned:
        """Take away what is past its time (semantics 8.2, 9.1), in small transactions; ``now`` is the store's if not given."""
        return self._pruning.prune(retention, now or self.now())

    def close(self) -> None:
        """Close every connection."""
        self._engine.close()


def open_store(
    url: str,
    *,
    hold: Hold = no_hold,
    clock: Callable[[], datetime] | None = None,
    host: str | None = None,
) -> Store:
    """The store at ``sqlite:///file`` or ``postgresql://…``; it connects at its first use.

    ``clock`` and ``host`` stand in for the store's clock and
    this machine's identity in tests.

    Raises:
        SettingsRefused: the URL cannot be read or names another kind of database.
        StoreNotShareable: a SQLite store without a file, or on a network file system.
    """
    return Store(StoreEngine(url, clock), hold, host_identity() if host is None else host)
