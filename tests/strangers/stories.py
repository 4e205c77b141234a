"""What is to be known of each of these services to play its story: how to deploy it, how to break its rule, how to wire it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx2
import yaml

Body = dict[str, Any]


class Story(Protocol):
    """One service. ``subjects`` are what two callers can quarrel about; a quarrel over one leaves the others as they are."""

    name: str
    driver: str
    migrate: tuple[str, ...]
    serve: tuple[str, ...]
    imports: str
    fixes: tuple[str, ...]

    def prepare(self, client: httpx2.Client, count: int) -> list[Any]:
        """Make so many subjects."""
        ...

    def call(self, subject: Any, caller: int) -> tuple[str, Body]:
        """What one caller posts, and where."""
        ...

    def parties(self, rows: Mapping[str, Mapping[str, str]]) -> tuple[str, str]:
        """The line for A and the line for B, by a frozen row of each table."""
        ...


@dataclass(frozen=True)
class Boxoffice:
    """FastAPI, synchronous SQLAlchemy and alembic: two callers find no booking of a seat, and both book it."""

    name: str = "boxoffice"
    driver: str = "postgresql+psycopg"
    migrate: tuple[str, ...] = ("-m", "alembic", "upgrade", "head")
    serve: tuple[str, ...] = ("-m", "uvicorn", "boxoffice.main:app", "--port", "0", "--no-access-log")
    imports: str = (
        "from fastapi.testclient import TestClient\n\nfrom boxoffice.bookings import book_seat\n"
        "from boxoffice.database import SessionLocal\nfrom boxoffice.main import app"
    )
    fixes: tuple[str, ...] = ("lock_the_seat", "unique_index")

    def prepare(self, client: httpx2.Client, count: int) -> list[Any]:
        seats = [f"A{one}" for one in range(count)]
        body = {"film": "Stalker", "starts_at": "2026-12-24T20:00:00Z", "seats": seats}
        return [one["id"] for one in client.post("/screenings", json=body).raise_for_status().json()["seats"]]

    def call(self, subject: Any, caller: int) -> tuple[str, Body]:
        return "/bookings", {"seat_id": subject, "email": f"{caller}@example.com"}

    def parties(self, rows: Mapping[str, Mapping[str, str]]) -> tuple[str, str]:
        seat = int(rows["bookings"]["seat_id"])
        return (
            f'with SessionLocal() as session: book_seat(session, {seat}, "ada@example.com")',
            f'TestClient(app).post("/bookings", json={{"seat_id": {seat}, "email": "bob@example.com"}})',
        )


@dataclass(frozen=True)
class Stockroom:
    """FastAPI, asyncpg under SQLAlchemy and alembic: two movements of one item are added to the same old number."""

    name: str = "stockroom"
    driver: str = "postgresql+asyncpg"
    migrate: tuple[str, ...] = ("-m", "alembic", "upgrade", "head")
    serve: tuple[str, ...] = ("-m", "uvicorn", "stockroom.main:app", "--port", "0", "--no-access-log")
    imports: str = (
        "from httpx2 import ASGITransport, AsyncClient\n\nfrom stockroom.main import create_app\n"
        "from stockroom.stock import take_delivery"
    )
    fixes: tuple[str, ...] = ("conditional_update", "version_column")

    def prepare(self, client: httpx2.Client, count: int) -> list[Any]:
        items = ({"sku": f"bolt-m{one}", "on_hand": 10} for one in range(count))
        return [client.post("/items", json=one).raise_for_status().json()["id"] for one in items]

    def call(self, subject: Any, caller: int) -> tuple[str, Body]:
        return f"/items/{subject}/movements", {"quantity": caller + 1, "reason": "delivery"}

    def parties(self, rows: Mapping[str, Mapping[str, str]]) -> tuple[str, str]:
        item = int(rows["items"]["id"])
        client = 'AsyncClient(transport=ASGITransport(create_app()), base_url="http://stockroom")'
        order = f'client.post("/items/{item}/movements", json={{"quantity": -1, "reason": "order"}})'
        return f"return take_delivery({item}, 5)", order.replace("client", f"return {client}", 1)


@dataclass(frozen=True)
class Vouchershop:
    """Django with its own migrations: two orders count the same redemptions of a voucher, and both redeem it."""

    name: str = "vouchershop"
    driver: str = "postgres"
    migrate: tuple[str, ...] = ("manage.py", "migrate")
    serve: tuple[str, ...] = ("manage.py", "runserver", "--noreload", "127.0.0.1:0")
    imports: str = "from django.test import Client\n\nfrom vouchers.services import redeem"
    fixes: tuple[str, ...] = ("select_for_update", "serializable")

    def prepare(self, client: httpx2.Client, count: int) -> list[Any]:
        codes = [f"SPRING-{one}" for one in range(count)]
        for code in codes:
            client.post("/vouchers/", json={"code": code, "max_redemptions": 2}).raise_for_status()
            path, body = self.call(code, 100)
            client.post(path, json=body).raise_for_status()
        return codes

    def call(self, subject: Any, caller: int) -> tuple[str, Body]:
        order = {"customer": f"{caller}@example.com", "order_number": caller}
        return f"/vouchers/{subject}/redemptions", order

    def parties(self, rows: Mapping[str, Mapping[str, str]]) -> tuple[str, str]:
        code = rows["vouchers_voucher"]["code"]
        order = '{"customer": "bob@example.com", "order_number": 18}'
        return (
            f'redeem("{code}", "ada@example.com", 17)',
            f'Client().post("/vouchers/{code}/redemptions", {order}, content_type="application/json")',
        )


STORIES: tuple[Story, ...] = (Boxoffice(), Stockroom(), Vouchershop())


def rule_of(repository: Path) -> str:
    """The text of a repository's one invariant."""
    (file,) = (repository / "invariants").glob("*.yaml")
    (invariant,) = yaml.safe_load(file.read_text())["invariants"]
    return str(invariant["sql"])


def wired(test: str, story: Story, rows: Mapping[str, Mapping[str, str]]) -> str:
    """The test file with what a person adds: imports, and one line for each party."""
    lines = iter(story.parties(rows))
    text, parties = re.subn(r"^    raise NotWired\(.*\)$", lambda _: f"    {next(lines)}", test, flags=re.MULTILINE)
    assert parties == 2, "the scaffold has two parties"
    return text.replace("from holdtrue.testing import", f"{story.imports}\n\nfrom holdtrue.testing import", 1)
