"""A folder with a catalog of one PostgreSQL database and one Slack, and ``holdtrue serve`` in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers.service import Serving

CONFIG = """version: 1
store: {{url: "{store}"}}
databases:
  payments:
    dialect: postgresql
    replicas: [{{name: r1, url: "${{DATABASE_URL}}"}}]
    allow_primary: true
    freshness: none
notifiers:
  oncall: {{kind: slack, channel: "#on-call", token: "${{SLACK_TOKEN}}", api_url: "{slack}"}}
"""


@dataclass
class Place:
    """A folder with a catalog, and what a process started in it is told."""

    folder: Path
    env: dict[str, str]

    def write(self, **texts: str) -> None:
        """Write one file of invariants: name to SQL, each asked every hour with a long time limit."""
        entries = [
            f"  - {{name: {name}, database: payments, interval: 1h, timeout: 5m, key: [id], columns: {{id: safe}},"
            f" sql: '{sql}'}}"
            for name, sql in texts.items()
        ]
        (self.folder / "invariants" / "all.yaml").write_text("version: 1\ninvariants:\n" + "\n".join(entries) + "\n")

    def serve(self) -> Serving:
        """A process that answers."""
        return Serving(self.folder, self.env).until_serving()


def entries(serving: Serving) -> dict[str, Any]:
    """The lines of the overview, by invariant."""
    return {one["invariant"]: one for one in serving.json("/api/v1/overview")["entries"]}
