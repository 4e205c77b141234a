"""The catalog is light: what stands beside a user's own service must not drag the service's parts in."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_catalog_imports_no_parser_and_no_part_of_the_service() -> None:
    """design 4: the install set `holdtrue` has PyYAML, sqlglot and cronsim alone, and sqlglot only when a text is judged"""
    program = "import sys, holdtrue.catalog; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    heavy = {"sqlglot", "sqlalchemy", "psycopg", "pydantic", "typer", "structlog", "fastapi", "jinja2", "httpx2"}
    assert not heavy & set(answer.stdout.split())
