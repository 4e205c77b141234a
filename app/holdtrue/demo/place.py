"""the demo's folder: what a user would have written, and where things are"""

from __future__ import annotations

import fcntl
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from holdtrue.demo.schema import ddl
from holdtrue.errors import Refused

_LOCK = ".lock"
INTERVAL = "3s"
TIME_LIMIT = "2s"
REPLICA_VARIABLE = "HOLDTRUE_DEMO_REPLICA"
SLACK_VARIABLE = "HOLDTRUE_DEMO_SLACK_TOKEN"

_CONFIG = """\
# Written by `holdtrue demo`. Everything that this demo knows is in this folder; delete it to forget all.
version: 1
store: {{url: "sqlite:///holdtrue.db"}}
databases:
  payments:
{database}
    schema_file: schema.sql    # `holdtrue test` proves on a scratch copy of it that every invariant can fail
notifiers:
  oncall: {{kind: slack, channel: "{channel}", token: "${{{slack}}}"{api}}}
"""
_SQLITE = """\
    replicas: [{name: file, url: "sqlite:///refunds.db"}]
    freshness: none        # a file has no replica that could lag
    allow_primary: true    # a SQLite file is its own primary
"""
_POSTGRES = """\
    replicas: [{{name: replica, url: "${{{replica}}}"}}]
    freshness: streaming
    max_lag: 10s
"""

_APP = '''\
"""The refunds application as it is deployed: what the barrier tests of this folder run."""

from holdtrue.demo import schema
from holdtrue.demo.provider import instant
from holdtrue.demo.{module} import issue_refund as _issue_refund


def issue_refund(engine, dispute_id, amount_eur):
    """Refund a dispute; the payment provider answers at once here."""
    return _issue_refund(engine, instant(), dispute_id, amount_eur)


def migrate(url):
    """Build the schema, as the application's own migrations do."""
    engine = schema.open_engine(url)
    schema.create(engine)
{migration}    engine.dispose()
'''
_CONFTEST = '''\
import pytest
import refunds_app


@pytest.fixture
def barrier_schema():
    """How the application's migrations build a database."""
    return refunds_app.migrate
'''


@dataclass(frozen=True)
class Place:
    """A demo's folder. ``temporary``: it is ours to delete."""

    folder: Path
    temporary: bool = False

    @property
    def config(self) -> Path:
        """The file that a user would have written."""
        return self.folder / "holdtrue.yaml"

    @property
    def receipts(self) -> Path:
        """The folder that stands for a bucket."""
        return self.folder / "receipts"

    @property
    def log(self) -> Path:
        """What ``holdtrue serve`` logs."""
        return self.folder / "serve.log"

    @property
    def incidents(self) -> Path:
        """Where promoted alerts go."""
        return self.folder / "tests" / "incidents"

    def write(self, *, replica_url: str = "", slack_url: str = "", slack_channel: str = "#payments") -> None:
        """Write ``holdtrue.yaml``, the four invariants, the DDL of their tables and a ``.env`` with secrets of its own.

        ``replica_url`` is a PostgreSQL replica; without one the database is a SQLite file in the folder. Without
        ``slack_url`` messages go to Slack itself.
        """
        (self.folder / "invariants").mkdir(parents=True, exist_ok=True)
        self.receipts.mkdir(exist_ok=True)
        database = _POSTGRES.format(replica=REPLICA_VARIABLE) if replica_url else _SQLITE
        api = f', api_url: "{slack_url}"' if slack_url else ""
        self.config.write_text(
            _CONFIG.format(database=database.rstrip(), channel=slack_channel, slack=SLACK_VARIABLE, api=api),
            encoding="utf-8",
        )
        shipped = files("holdtrue.demo") / "invariants" / "refunds.yaml"
        text = shipped.read_text(encoding="utf-8")
        # A demo is watched for a minute: the shipped rules are asked far more often, and nothing else is changed in them.
        pace = f"interval: {INTERVAL}, timeout: {TIME_LIMIT}"
        text = text.replace("interval: 15m", pace, 1).replace("confirm: 45s", "confirm: 1s", 1)
        (self.folder / "invariants" / "refunds.yaml").write_text(text, encoding="utf-8")
        tables = ddl("postgresql" if replica_url else "sqlite")
        (self.folder / "schema.sql").write_text(tables, encoding="utf-8")
        self._write_secret()
        self.deploy(fixed=False)
        (self.folder / ".gitignore").write_text("*\n", encoding="utf-8")

    def forget_store(self) -> None:
        """Start without a past: a new PostgreSQL is another server than the one the store knew."""
        for path in self.folder.glob("holdtrue.db*"):
            path.unlink()

    def _write_secret(self) -> None:
        path = self.folder / ".env"
        if path.exists():
            return
        path.touch(mode=0o600)
        path.write_text(f"HOLDTRUE_LEDGER_SECRET={secrets.token_hex(32)}\n", encoding="utf-8")

    def deploy(self, *, fixed: bool) -> None:
        """Write the application that the barrier tests run, as it was first written or mended."""
        self.incidents.mkdir(parents=True, exist_ok=True)
        text = _APP.format(
            module="fixes" if fixed else "service",
            migration="    schema.forbid_second_refunds(engine)\n" if fixed else "",
        )
        (self.folder / "refunds_app.py").write_text(text, encoding="utf-8")
        (self.folder / "tests" / "conftest.py").write_text(_CONFTEST, encoding="utf-8")
        (self.folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")

    def refuse_strangers(self) -> None:
        """Leave a folder alone that holds something else.

        Raises:
            Refused: it does.
        """
        if not self.folder.exists() or all(one.name == _LOCK for one in self.folder.iterdir()):
            return
        mark = "# Written by `holdtrue demo`."
        if not self.config.exists() or not self.config.read_text(encoding="utf-8").startswith(mark):
            raise Refused(f"{self.folder} is not empty and holds no demo", remedy="name another folder with --state")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Within: no other demo may use the folder; two would write one catalog, and one's Slack would end with the other.

        Raises:
            Refused: another one runs there.
        """
        with (self.folder / _LOCK).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Refused(
                    f"another demo runs in {self.folder}", remedy="end it, or name another folder with --state"
                ) from None
            yield


def choose(state: Path | None, *, temporary: bool) -> Place:
    """The folder that was named, a temporary one, or ``demo-state`` here."""
    if state is not None:
        return Place(state.resolve())
    if temporary:
        return Place(Path(tempfile.mkdtemp(prefix="holdtrue-demo-")), temporary=True)
    return Place(Path("demo-state").resolve())
