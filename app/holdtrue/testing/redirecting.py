"""leads every engine of a thread to one database while migrations run, whatever URL their env.py has read"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect


@contextmanager
def every_engine_leads_to(url: str) -> Iterator[None]:
    """Let each new connection of this thread, of an engine of the same kind of database, go to ``url``.

    An ``env.py`` often takes its URL from settings that were read long ago. Without this the migrations of a test would run
    on the database that a person works with.
    """
    from sqlalchemy import event, make_url  # the kit stays light: only a test that races needs SQLAlchemy
    from sqlalchemy.engine import Engine

    target = make_url(url)
    here = threading.get_ident()

    def lead(dialect: Dialect, _record: object, cargs: list[Any], cparams: dict[str, Any]) -> None:
        if threading.get_ident() != here or dialect.name != target.get_backend_name():
            return
        if target.database in (*cargs, cparams.get("dbname"), cparams.get("database")):
            return  # it leads there already, by options of its own
        arguments, parameters = dialect.create_connect_args(target)
        cargs[:] = arguments
        cparams.clear()
        cparams.update(parameters)

    event.listen(Engine, "do_connect", lead)
    try:
        yield
    finally:
        event.remove(Engine, "do_connect", lead)
