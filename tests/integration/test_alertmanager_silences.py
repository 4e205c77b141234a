"""A silence of ours stands at a real Alertmanager too, and where it could not be made is said (semantics 7.6)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdtrue.bootstrap.mirroring import mirrors_of
from holdtrue.model import AlertState, Episode, Subject
from scenes import Clock, Scene, catalog_of, invariant
from scenes.seeing import OURS
from scenes.serving import client_of, web_service
from servers.alertmanager import AlertmanagerServer, Webhook, cluster_of, free_port
from servers.service import until


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[AlertmanagerServer]:
    webhook = Webhook()
    server = AlertmanagerServer(tmp_path / "alertmanager", webhook).start()
    yield server
    server.stop()
    webhook.close()


def test_it_is_made_and_ended_at_every_member_and_a_dead_one_is_named(
    tmp_path: Path, alertmanager: AlertmanagerServer
) -> None:
    """With a glob, and with a tag, which alerts there do not have."""
    scene = Scene(tmp_path, clock=Clock(datetime.now(UTC)))
    scene.install(catalog_of([invariant("refund_once", tags=("money",)), invariant("ledger")]))
    dead = f"http://127.0.0.1:{free_port()}"
    cluster = cluster_of(alertmanager.url, dead)
    renamed = Episode(
        invariant="refund_once",
        database="payments",
        subject=Subject.VIOLATION,
        state=AlertState.FIRING,
        opened_at=datetime.now(UTC),
        definition="d1",
        severity="critical",
        owner="payments-oncall",
        fired_as="single_refund",
    )
    mirrors = mirrors_of([cluster], lambda: scene.catalog, lambda: (renamed,))
    api = client_of(web_service(scene, mirrors=lambda: mirrors), **OURS)
    member = cluster.members[0]
    ends = datetime.now(UTC) + timedelta(hours=1)
    labels = [
        {"alertname": "HoldtrueViolated", "invariant": name} for name in ("refund_once", "ledger", "single_refund")
    ]
    assert member.push([{"labels": one, "endsAt": ends.isoformat()} for one in labels]) is None
    body = {"matchers": ["name~refund_*", "tag=money"], "comment": "why", "for_seconds": 3600, "by": "alice"}
    made = api.post("/api/v1/silences", json=body).json()
    (elsewhere,) = made["elsewhere"]
    assert elsewhere["name"] == cluster.name
    assert elsewhere["problem"].startswith(cluster.members[1].name)
    assert member.name not in elsewhere["problem"]
    (there,) = alertmanager.silences()
    assert there["createdBy"] == "alice (loopback)"

    def state(name: str) -> str:
        (alert,) = alertmanager.alerts(invariant=name)
        return str(alert["status"]["state"])

    until(lambda: state("refund_once") == "suppressed", "the alert is silenced there")
    assert state("single_refund") == "suppressed", "the alert of a renamed invariant, under the name that it fired with"
    assert state("ledger") == "active"
    assert api.post(f"/api/v1/silences/{made['id']}/end").json()["elsewhere"] == made["elsewhere"]
    until(lambda: state("refund_once") == "active", "the silence has ended there")
    assert alertmanager.silences() == []
    scene.store.close()
