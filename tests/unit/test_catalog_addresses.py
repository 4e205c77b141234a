"""Parameters of a replica's URL: a misspelt demand for safety is refused at load, with its place and the right word."""

from __future__ import annotations

import pytest
from psycopg import pq

from catalogs import accepted, item, refused
from holdtrue.catalog.addresses import misspelt_parameters
from holdtrue.model import Dialect

RULE = item("sql: SELECT id FROM orders WHERE total < 0")


def _database(url: str, more: str = "") -> str:
    return f"databases:\n  shop:\n    replicas:\n      - {{name: r, url: '{url}'}}\n{more}"


@pytest.mark.parametrize(
    ("url", "word", "meant"),
    [
        ("postgresql://h/d?sslmod=verify-full", "sslmod", "sslmode"),
        ("postgresql://h/d?sslmode=verify_full", "verify_full", "verify-full"),
        ("postgresql://h/d?sslmode=verify-full&sslrootcrt=/ca.pem", "sslrootcrt", "sslrootcert"),
        ("postgresql://${U}:${P}@h/d?sslmode=require&ssl_ca=/ca.pem", "ssl_ca", None),
        ("mysql://h/d?ssl_verify_identiy=true", "ssl_verify_identiy", "ssl_verify_identity"),
        ("mysql://h/d?ssl_mode=verify-identity", "verify-identity", "verify_identity"),
        ("mysql://h/d?ssl_verify_cert=maybe", "maybe", None),
        ("mysql://h/d?sslmode=verify-full", "sslmode", "ssl_mode"),
        ("postgresql://h/d?sslmode=verify-full&sslmode=disable", "sslmode", None),
        ("mysql://h/d?ssl_verify_identity=1&ssl_verify_identity=0", "ssl_verify_identity", None),
    ],
)
def test_a_misspelt_parameter_is_refused_at_load_with_its_place(url: str, word: str, meant: str | None) -> None:
    (problem,) = refused(RULE, _database(url))
    assert (problem.place.file, problem.place.line) == ("holdtrue.yaml", 4)
    assert problem.offending == word
    if meant is not None:
        assert problem.suggestion == meant


def test_a_sqlite_file_takes_no_parameters() -> None:
    (problem,) = refused(RULE, _database("sqlite:///shop.db?mode=rwc", "    allow_primary: true\n"))
    assert (problem.place.line, problem.offending) == (4, "mode")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/d?sslmode=verify-full&sslrootcert=/ca.pem&sslcert=/c.pem&sslkey=/k.pem",
        "postgresql://h/d?sslmode=${MODE}&sslrootcert=${file:/run/ca}",
        "postgresql://h/d?${PARAMETERS}",
        "mysql://h/d?ssl_mode=VERIFY_IDENTITY&ssl_ca=/ca.pem",
        "mariadb://h/d?ssl_ca=/ca.pem&ssl_verify_identity=on&charset=utf8mb4",
        "${URL}",
    ],
)
def test_known_parameters_and_references_are_accepted(url: str) -> None:
    assert accepted(RULE, _database(url))


def test_every_parameter_of_the_driver_is_known() -> None:
    """A newer libpq may know more: then they are added here, and until then refused."""
    for one in pq.Conninfo.get_defaults():
        name = one.keyword.decode()
        wrong = misspelt_parameters(f"postgresql://h/d?{name}=x", Dialect.POSTGRESQL)
        # D: not for users. A value that is none is another matter.
        assert one.dispchar == b"D" or all("does not know" not in found.message for found in wrong), name
