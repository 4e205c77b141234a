"""the schema that Django's migrations build, and Django itself pointed at the barrier database while the test runs"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdtrue.errors import MissingInstallSet, Refused
from holdtrue.testing.building import not_built

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_MODULE = "DJANGO_SETTINGS_MODULE"
_PLAIN = {"postgresql": "django.db.backends.postgresql", "sqlite": "django.db.backends.sqlite3"}
# Each of them leads to another server, or keeps connections to the one from before.
_NOT_KEPT = frozenset(
    {"service", "passfile", "pool", "sslmode", "sslcert", "sslkey", "sslrootcert", "host", "hostaddr"}
)


@dataclass(frozen=True, slots=True)
class DjangoSchema:
    """Runs ``migrate`` with the alias ``database`` pointed at the barrier database, and ``also`` other aliases."""

    settings: str = ""
    database: str = "default"
    also: tuple[str, ...] = ()

    def __call__(self, url: str) -> Pointed:
        """Build the schema in the empty database at ``url``; Django speaks to it until the result is closed.

        Raises:
            MissingInstallSet: Django is not installed.
            Refused: the settings cannot be loaded, have no such alias, or the migrations failed.
        """
        __tracebackhide__ = True
        connections = self._connections()
        from django.core.management import call_command  # only for users of Django
        from sqlalchemy import make_url

        pointed = Pointed(connections, (self.database, *self.also), make_url(url))
        try:
            call_command("migrate", database=self.database, run_syncdb=True, interactive=False, verbosity=0)
        except (Exception, SystemExit) as error:
            pointed.close()
            raise not_built(
                f"schema_from_django: migrate of {self.database} failed",
                error,
                "`manage.py migrate` must work on an empty database",
            ) from error
        return pointed

    def _connections(self) -> Any:  # noqa: ANN401  Django has no types
        __tracebackhide__ = True
        try:
            import django  # only for users of Django
            from django.apps import apps
            from django.db import connections
        except ImportError as error:
            raise MissingInstallSet("schema_from_django needs Django", remedy="pip install Django") from error
        if self.settings and os.environ.setdefault(_MODULE, self.settings) != self.settings:
            raise Refused(
                f"schema_from_django: settings {self.settings}, while {_MODULE} says {os.environ[_MODULE]}",
                remedy="give one of them",
            )
        try:
            if not apps.ready:
                django.setup()
            there = list(connections)
        except Exception as error:
            raise not_built(
                "schema_from_django: Django's settings cannot be loaded",
                error,
                f'name them, schema_from_django("mysite.settings"), or set {_MODULE}; the folder of manage.py must be on the '
                "path (pytest's setting pythonpath = .)",
            ) from error
        missing = [one for one in (self.database, *self.also) if one not in there]
        if missing:
            raise Refused(
                f"schema_from_django: DATABASES has no {', '.join(missing)}",
                remedy=f"it has {', '.join(sorted(there))}",
            )
        return connections


class Pointed:
    """Some aliases of Django pointed at one database; ``close`` points them back."""

    def __init__(self, connections: Any, aliases: tuple[str, ...], url: URL) -> None:  # noqa: ANN401  Django has no types
        """Point them there at once. The entries are changed in place: every thread's connections hold the same ones."""
        from django.db.backends.signals import connection_created  # only for users of Django

        self._connections = connections
        self._lock = threading.Lock()
        self._opened: list[tuple[threading.Thread, Any]] = []
        self._before = {alias: dict(connections.settings[alias]) for alias in aliases}
        for alias, before in self._before.items():
            self._put(alias, entry_for(before, url))
        connection_created.connect(self._note)

    def close(self) -> None:
        """Close what any thread opened to the barrier database, and point the aliases back."""
        from django.db.backends.signals import connection_created  # only for users of Django

        connection_created.disconnect(self._note)
        self._close(lambda _thread: True)
        for alias, before in self._before.items():
            self._put(alias, before)

    def _put(self, alias: str, entry: Mapping[str, Any]) -> None:
        self._connections[alias].close()
        del self._connections[alias]
        there = self._connections.settings[alias]
        there.clear()
        there.update(entry)

    def _note(self, connection: Any, **_signal: object) -> None:  # noqa: ANN401  Django has no types
        """Django closes nothing when a thread ends; a sweep would otherwise use up the server's connections."""
        if connection.alias not in self._before:
            return
        with self._lock:
            self._opened.append((threading.current_thread(), connection))
        self._close(lambda thread: not thread.is_alive())

    def _close(self, over: Callable[[threading.Thread], bool]) -> None:
        with self._lock:
            ended = [connection for thread, connection in self._opened if over(thread)]
            self._opened = [one for one in self._opened if not over(one[0])]
        for connection in ended:
            connection.inc_thread_sharing()
            connection.close()


def entry_for(before: Mapping[str, Any], url: URL) -> dict[str, Any]:
    """The entry of ``DATABASES`` that is ``before``, but at ``url``.

    A backend of the same kind stays with its options, the isolation level among them; another kind gives way to Django's own.
    """
    kind = url.get_backend_name()
    if kind not in _PLAIN:
        raise Refused(f"schema_from_django: there is no barrier database on {kind}")
    engine = str(before.get("ENGINE", ""))
    same = _kind_of(engine) == kind
    options = {name: value for name, value in before.get("OPTIONS", {}).items() if name not in _NOT_KEPT}
    return {
        **copy.deepcopy(dict(before)),
        "ENGINE": engine if same else _PLAIN[kind],
        "OPTIONS": options if same else {},
        "NAME": url.database or "",
        "USER": url.username or "",
        "PASSWORD": str(url.password or ""),
        "HOST": url.host or "",
        "PORT": str(url.port or ""),
        "CONN_MAX_AGE": 0,
    }


def _kind_of(engine: str) -> str:
    from django.db.utils import load_backend  # only for users of Django

    try:
        return str(load_backend(engine).DatabaseWrapper.vendor)
    except Exception:  # noqa: BLE001  a backend that cannot be loaded is not used
        return ""


def schema_from_django(settings: str = "", *, database: str = "default", also: tuple[str, ...] = ()) -> DjangoSchema:
    """The schema that Django's migrations build; the ORM speaks to the barrier database while the test runs.

    ``settings`` is the module of Django's settings if ``DJANGO_SETTINGS_MODULE`` does not say it. ``database`` is the alias
    that is migrated and pointed there; ``also`` are aliases that lead to the same database, as a replica's does.
    """
    return DjangoSchema(settings, database, tuple(also))
