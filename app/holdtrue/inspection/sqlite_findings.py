"""decides what is to be said of a SQLite file (pure)"""

from __future__ import annotations

from holdtrue.databases import SqliteFacts, Told
from holdtrue.inspection.findings import Finding, fine, of_untold, warning


def of_sqlite(told: Told, facts: SqliteFacts) -> list[Finding]:
    """The library, the file, its journal and who else may write it."""
    found = [
        fine("versions", f"SQLite {facts.version}, as Python brings it: offered"),
        fine("file", f"{facts.path}, {facts.size:,} bytes: a file has no replica, no lag and no position"),
    ]
    if facts.journal == "wal":
        found.append(fine("journal", "journal mode wal: a run holds up no writer"))
        if not facts.shared_memory and not facts.folder_writable:
            found.append(
                warning(
                    "no_shared_memory",
                    "nobody has the file open and this user may not write its folder: a file in WAL mode cannot be read then",
                    "let this user write the folder, or let the application keep the file open",
                )
            )
    else:
        said = f"journal mode {facts.journal}: while a run reads, writers wait"
        found.append(fine("journal", said, "PRAGMA journal_mode = wal, once, by the application"))
    if facts.file_writable:
        said = "this user could write the file; Holdtrue opens it read-only and authorises nothing but reading"
        found.append(fine("file_rights", said, "run Holdtrue as a user that may only read it"))
    else:
        found.append(fine("reads_only", "this user may only read the file"))
    return [*found, *of_untold(told, ())]
