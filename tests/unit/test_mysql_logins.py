"""How Holdtrue reads a URL of MariaDB or MySQL, and how sure it is of the server."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

import pytest

from holdtrue.databases.dialects import driver_for
from holdtrue.databases.mysql_login import Tls, TlsMode, read_address
from holdtrue.model import Dialect, Failure

# The driver and TLS.


def test_without_its_driver_a_database_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "holdtrue.databases.mysql", raising=False)
    monkeypatch.delitem(sys.modules, "holdtrue.databases.mysql_wire", raising=False)
    monkeypatch.setitem(sys.modules, "pymysql", None)
    found = driver_for(Dialect.MYSQL, "holdtrue", Path())
    assert isinstance(found, Failure)
    assert found.sentence == "PyMySQL is not installed: pip install 'holdtrue[mysql]'"


def test_each_way_to_be_sure_of_a_server_is_what_it_says() -> None:
    from holdtrue.databases.mysql import tls_context

    assert tls_context(Tls()) is None
    assert tls_context(Tls(TlsMode.DISABLED)) is None
    checks = {}
    for mode in (TlsMode.REQUIRED, TlsMode.VERIFY_CA, TlsMode.VERIFY_IDENTITY):
        context = tls_context(Tls(mode))
        assert context is not None
        checks[mode] = (context.verify_mode is ssl.CERT_REQUIRED, context.check_hostname)
    assert checks == {
        TlsMode.REQUIRED: (False, False),
        TlsMode.VERIFY_CA: (True, False),
        TlsMode.VERIFY_IDENTITY: (True, True),
    }


# URLs (semantics 1.7).


def test_a_url_is_read_and_a_password_apart_is_taken_verbatim() -> None:
    found = read_address("mysql+pymysql://us%40er:p%2Fw%23@db:3307/shop%20x?charset=utf8mb4", None)
    assert found is not None
    assert (found.options["user"], found.options["password"], found.options["port"]) == ("us@er", b"p/w#", 3307)
    assert (found.options["database"], found.tls.mode) == ("shop x", TlsMode.PREFERRED)
    apart = read_address("mariadb://u@h/d", "p@ss:w/o#rd?%41ü")
    assert apart is not None
    assert apart.options["password"] == "p@ss:w/o#rd?%41ü".encode()
    assert "w/o" not in repr(apart)


@pytest.mark.parametrize(
    ("query", "mode"),
    [
        ("", TlsMode.PREFERRED),
        ("?ssl_ca=/ca.pem", TlsMode.VERIFY_CA),
        ("?ssl_ca=/ca.pem&ssl_verify_identity=true", TlsMode.VERIFY_IDENTITY),
        ("?ssl_ca=/ca.pem&ssl_verify_cert=false", TlsMode.REQUIRED),
        ("?ssl_disabled=1", TlsMode.DISABLED),
        ("?ssl_mode=VERIFY_IDENTITY", TlsMode.VERIFY_IDENTITY),
        ("?ssl_mode=required&ssl_ca=/ca.pem", TlsMode.REQUIRED),
    ],
)
def test_the_ways_to_be_sure_of_a_server_are_those_of_mysql(query: str, mode: TlsMode) -> None:
    found = read_address(f"mysql://u@h/d{query}", None)
    assert found is not None
    assert found.tls.mode is mode


@pytest.mark.parametrize(
    "url",
    [
        "mysql:///d",
        "postgresql://h/d",
        "mysql://u:p@ss/w#x@h/d",
        "mysql://h:port/d",
        "mysql://h/d?ssl_verify_identiy=true",
        "mysql://h/d?ssl_verify_cert=maybe",
        "mysql://h/d?ssl_ca=",
        "mysql://h/d?ssl_mode=sure",
        "mysql://h/d?ssl_mode=required&ssl_verify_cert=true",
        "mysql://h/d?ssl_disabled=1&ssl_ca=/ca.pem",
        "mysql://h/d?ssl_disabled=1&ssl_verify_identity=1",
        "mysql://h/d?ssl_mode=verify_identity&ssl_mode=preferred",
    ],
)
def test_a_url_that_cannot_be_read_is_never_guessed(url: str) -> None:
    """A misspelt demand for safety must not quietly mean none."""
    assert read_address(url, None) is None
