"""the catalog's databases under the caller's own login, for as long as one command lasts"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from holdtrue.databases import Databases
from holdtrue.model import Catalog


@contextmanager
def connected(
    catalog: Catalog, environ: Mapping[str, str], folder: Path, *, command: str = "run"
) -> Iterator[Databases]:
    """The catalog's databases, with the caller's own login; on the way out running statements are cancelled.

    Relative SQLite files lie in ``folder``: that of ``holdtrue.yaml``. ``command`` is what the servers show as our name.
    """
    databases = Databases(environ=environ, application_name=f"holdtrue {command}", folder=folder)
    databases.configure(catalog.config.databases)
    try:
        yield databases
    finally:
        databases.interrupt_all()
        databases.close()
