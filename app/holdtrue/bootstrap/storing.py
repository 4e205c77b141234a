"""which store holdtrue.yaml names, and opening it"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from holdtrue.catalog import read_config, resolve_secret
from holdtrue.errors import SettingsRefused, StoreUnreachable
from holdtrue.settings import Settings
from holdtrue.store import Store, open_store

_SQLITE = "sqlite:///"


def store_url(settings: Settings, environ: Mapping[str, str]) -> str:
    """The store's URL, its secrets resolved; a relative SQLite file lies beside ``holdtrue.yaml``, wherever one stands.

    Raises:
        SettingsRefused: there is no readable ``holdtrue.yaml``, or a variable is missing.
        CatalogRefused: ``holdtrue.yaml`` is wrong.
    """
    try:
        text = settings.config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsRefused(
            f"{settings.config} cannot be read", remedy="`holdtrue init` writes one; --config names another"
        ) from problem
    url = resolve_secret(read_config(text, environ=environ).store.url, environ)
    return beside(url, settings.config.parent)


def open_local_store(settings: Settings, environ: Mapping[str, str], *, make: bool = True) -> Store:
    """The store that ``holdtrue.yaml`` names, for a command beside the service; its schema is left as it is.

    Without ``make`` a SQLite file that is not there stays away: opening it would make an empty one.

    Raises:
        SettingsRefused: as `store_url`.
        StoreUnreachable: there is no such file.
        StoreError: the store cannot be opened.
    """
    url = store_url(settings, environ)
    name = url.removeprefix(_SQLITE)
    if not make and name.startswith("/") and name != url and not Path(name.partition("?")[0]).exists():
        raise StoreUnreachable(
            "nothing is kept yet: the store's file is not there",
            remedy="`holdtrue serve` makes it; HOLDTRUE_URL names a service elsewhere",
        )
    return open_store(url)


def beside(url: str, folder: Path) -> str:
    """A relative SQLite URL made absolute from ``folder``; every other URL as it is."""
    name = url.removeprefix(_SQLITE)
    if name == url or not name or name.startswith(("/", ":", "file:")):
        return url
    return f"{_SQLITE}{(folder / name).resolve()}"
