"""looks at a SQLite file and the folder it lies in"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from holdtrue.databases.facts import SqliteFacts


def read_sqlite_facts(path: Path, journal: str) -> SqliteFacts:
    """What the file system tells; ``journal`` is the file's journal mode.

    Raises:
        OSError: the file is not there any more.
    """
    return SqliteFacts(
        version=sqlite3.sqlite_version,
        path=str(path),
        size=path.stat().st_size,
        journal=journal.lower(),
        file_writable=os.access(path, os.W_OK),
        folder_writable=os.access(path.absolute().parent, os.W_OK),
        shared_memory=path.with_name(f"{path.name}-shm").exists(),
    )
