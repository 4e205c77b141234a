"""How one member of an Alertmanager cluster is spoken to: credentials, TLS, names, silences (semantics 7.6)."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from holdtrue.errors import SettingsRefused
from holdtrue.model import Secret
from holdtrue.notifiers import LabelMatch, expire, silence
from holdtrue.notifiers.alertmanager import AT_ONCE
from servers.alertmanager import MemberStub, cluster_of
from telling import START, Service, push


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path, ("one_refund",), {})
    made.run()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"token": Secret("${SECRET}")}, "Bearer s3cret-of-the-test"),
        ({"username": "holdtrue", "password": Secret("${SECRET}")}, "Basic aG9sZHRydWU6czNjcmV0LW9mLXRoZS10ZXN0"),
    ],
)
def test_credentials_are_sent_and_stand_in_no_log(
    service: Service, member: MemberStub, options: dict[str, Any], sent: str
) -> None:
    """Semantics 1.7: read anew at each push; an address may hold what is secret too, so logs name host and port."""
    environ = {"SECRET": "s3cret-of-the-test", "PLACE": f"{member.url}/a-hidden-path"}
    member.status = 401
    with structlog.testing.capture_logs() as logs:
        push(service.pushing(cluster_of("${PLACE}", environ=environ, **options)))
    assert member.requests[0][2]["authorization"] == sent
    assert member.requests[0][1] == "/a-hidden-path/api/v2/alerts"
    [line] = [one for one in logs if one["event"] == "push_failed"]
    assert line["problem"] == "it answered 401"
    assert "s3cret" not in str(logs)
    assert "hidden" not in str(logs)
    environ["SECRET"] = "another"


def test_members_behind_one_host_are_two_and_are_numbered(service: Service, member: MemberStub) -> None:
    """One dropped for having the other's name would never be told."""
    cluster = cluster_of(f"{member.url}/one", f"{member.url}/two", f"{member.url}/two")
    place = member.url.removeprefix("http://")
    assert [one.name for one in cluster.members] == [place, f"{place}#2"]
    assert push(service.pushing(cluster)) == 2
    assert {path for _, path, _, _ in member.requests} == {"/one/api/v2/alerts", "/two/api/v2/alerts"}


def test_what_a_member_refuses_keeps_nothing_else_from_it(member: MemberStub) -> None:
    """Semantics 7.6: the alerts of one request that it does not like are not those of the next."""
    (one,) = cluster_of(member.url).members
    member.status = 400
    problem = one.push([{"labels": {"n": str(number)}} for number in range(AT_ONCE + 1)])
    assert problem is not None
    assert problem.sentence == "it answered 400"
    assert [len(body) for _, _, _, body in member.requests] == [AT_ONCE, 1]


def test_a_cluster_that_cannot_be_built_is_refused_without_its_secrets(tmp_path: Path) -> None:
    with pytest.raises(SettingsRefused, match="SECRET is not set"):
        cluster_of("http://127.0.0.1:1", token=Secret("${SECRET}"))
    with pytest.raises(SettingsRefused) as refusal:
        cluster_of("${URL}", environ={"URL": "http://user:hunter2@127.0.0.1:1"})
    assert "hunter2" not in str(refusal.value)
    with pytest.raises(SettingsRefused, match="certificate"):
        cluster_of("https://127.0.0.1:1", ca_file=str(tmp_path / "none.pem"))


def test_tls_is_checked_against_the_authority_that_is_named(
    service: Service, member: MemberStub, tmp_path: Path, certificate: Path
) -> None:
    """A member whose certificate nobody vouches for is told nothing; the log says no address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    member._server.socket = context.wrap_socket(member._server.socket, server_side=True)
    url = member.url.replace("http:", "https:")
    with structlog.testing.capture_logs() as logs:
        push(service.pushing(cluster_of(url)))
    assert member.pushed == []
    assert [one["problem"] for one in logs if one["event"] == "push_failed"] == [
        "it did not answer (SSLCertVerificationError)"
    ]
    push(service.pushing(cluster_of(url, ca_file=str(certificate))))
    assert len(member.pushed) == 1


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1 that vouches for itself, with its key in the same file."""
    file = tmp_path_factory.mktemp("tls") / "member.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, *names, "-keyout", file, "-out", f"{file}.crt"], check=True, capture_output=True)
    file.write_text(file.read_text() + Path(f"{file}.crt").read_text())
    return file


def test_a_silence_is_asked_of_every_member_and_says_where_it_could_not(member: MemberStub, other: MemberStub) -> None:
    """Semantics 7.6: `holdtrue alerts silence` makes the same there and says when it could not."""
    member.answers = {
        "/api/v2/silences": [
            {"id": "of-ours", "comment": "deploy [holdtrue silence 12]", "status": {"state": "active"}},
            {"id": "of-others", "comment": "ours too? no", "status": {"state": "active"}},
        ]
    }
    other.status = 500
    cluster = cluster_of(member.url, other.url)
    said = silence(
        cluster,
        "holdtrue silence 12",
        [LabelMatch("invariant", "refunds"), LabelMatch("owner", "pay.*", regex=True)],
        starts_at=START,
        ends_at=START + timedelta(hours=2),
        by="ana",
        comment="deploy",
    )
    assert [(one.member.rpartition(":")[0], one.problem) for one in said] == [
        ("127.0.0.1", ""),
        ("127.0.0.1", "it answered 500"),
    ]
    _, _, _, body = member.requests[-1]
    assert body["id"] == "of-ours"
    assert body["matchers"][1] == {"name": "owner", "value": "pay.*", "isRegex": True, "isEqual": True}
    assert [one.problem for one in expire(cluster, "holdtrue silence 12")] == ["", "it answered 500"]
    assert [path for method, path, _, _ in member.requests if method == "DELETE"] == ["/api/v2/silence/of-ours"]
