"""The chart renders what Kubernetes accepts: one confined pod on its own volume, and refuses what would lose the ledger."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import pytest
import yaml

from holdtrue.catalog import build_catalog

CHART = Path(__file__).parents[2] / "helm" / "holdtrue"
VALUES: dict[str, Any] = {
    "config": {"databases": {"payments": {"replicas": [{"name": "r1", "url": "${PAYMENTS_REPLICA_URL}"}]}}},
    "invariants": {"refunds.yaml": "version: 1\ninvariants: []\n", "sql.sql": "SELECT 1\n"},
    "secret": {"name": "holdtrue", "keys": ["HOLDTRUE_LEDGER_SECRET", "HOLDTRUE_TOKEN", "PAYMENTS_REPLICA_URL"]},
}
VERSIONS = ["1.25", "1.31", "1.37"]


def render(**changes: Any) -> list[dict[str, Any]]:
    """The manifests under the values above with some changed."""
    with helm_python.Chart.load(CHART) as chart:
        files = chart.render({**VALUES, **changes}, name="prod", namespace="monitoring")
    return [
        document
        for name, text in sorted(files.items())
        if name.endswith(".yaml")
        for document in yaml.safe_load_all(text)
        if document
    ]


def the(kind: str, documents: list[dict[str, Any]]) -> dict[str, Any]:
    """The one manifest of a kind."""
    (found,) = [one for one in documents if one["kind"] == kind]
    return found


def pod(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """The pod's spec."""
    spec: dict[str, Any] = the("Deployment", documents)["spec"]["template"]["spec"]
    return spec


def test_strict_lint_finds_nothing() -> None:
    report = helm_python.lint(CHART, VALUES, strict=True)
    assert report["total_charts_linted"] == 1
    assert report["errors"] == []
    assert [one for one in report["messages"] if one["severity"] >= 2] == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"networkPolicy": {"enabled": True}},
        {"networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}]}},
        {"persistence": {"enabled": True, "storageClass": "fast", "accessMode": "ReadWriteOncePod", "size": "5Gi"}},
        {
            "podAnnotations": {"a": "b"},
            "podLabels": {"team": "x"},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "priorityClassName": "high",
            "imagePullSecrets": [{"name": "pull"}],
            "env": {"HOLDTRUE_LOG_LEVEL": "debug", "HOLDTRUE_THREADS": 4},
            "affinity": {"nodeAffinity": {}},
            "service": {"type": "NodePort", "port": 81, "annotations": {"x": "y"}},
        },
    ],
    ids=["defaults", "network policy", "network policy with peers", "own storage", "everything else"],
)
def test_every_manifest_is_one_that_kubernetes_knows(changes: dict[str, Any], version: str) -> None:
    documents = render(**changes)
    assert len(documents) >= 5
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)


def test_there_is_one_pod_and_never_two() -> None:
    spec = the("Deployment", render())["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def test_no_value_runs_more_than_one_pod() -> None:
    with pytest.raises(helm_python.HelmError, match="replicaCount"):
        render(replicaCount=2)


def test_every_container_is_confined() -> None:
    spec = pod(render())
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["fsGroup"] == 10001
    for container in [*spec["initContainers"], *spec["containers"]]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"]
        assert not container["image"].endswith(":latest")


def test_the_pod_runs_as_the_user_of_the_image() -> None:
    dockerfile = (CHART.parents[1] / "Dockerfile").read_text()
    context = pod(render())["securityContext"]
    assert f"USER {context['runAsUser']}:{context['runAsGroup']}\n" in dockerfile


def test_probes_ask_the_process_and_the_store_and_never_a_database() -> None:
    (container,) = pod(render())["containers"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["startupProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


def test_a_stopping_pod_has_time_for_its_runs() -> None:
    assert pod(render())["terminationGracePeriodSeconds"] >= 30


def test_only_the_volume_and_tmp_can_be_written() -> None:
    spec = pod(render())
    (container,) = spec["containers"]
    volumes = {one["name"]: one for one in spec["volumes"]}
    writable = {one["name"] for one in container["volumeMounts"] if not one.get("readOnly")}
    assert writable == {"state", "tmp"}
    assert volumes["state"] == {"name": "state", "persistentVolumeClaim": {"claimName": "prod-holdtrue"}}
    assert the("PersistentVolumeClaim", render())["metadata"]["name"] == "prod-holdtrue"


def test_an_existing_claim_is_used_and_none_is_made() -> None:
    documents = render(persistence={"enabled": True, "existingClaim": "mine"})
    assert "PersistentVolumeClaim" not in {one["kind"] for one in documents}
    assert {"name": "state", "persistentVolumeClaim": {"claimName": "mine"}} in pod(documents)["volumes"]


def test_the_files_arrive_byte_for_byte() -> None:
    text = "version: 1\ninvariants:\n  - name: a\n    sql: |\n      SELECT '{{ x }}'  -- ü, \"quoted\"\n"
    maps = [one for one in render(invariants={"a.yaml": text}) if one["kind"] == "ConfigMap"]
    assert {"a.yaml": text} in [one["data"] for one in maps]


def test_what_is_mounted_is_a_catalog_that_holdtrue_accepts() -> None:
    invariant = """
version: 1
defaults: {database: payments}
invariants:
  - {name: a, key: [id], sql: SELECT id FROM t WHERE broken}
"""
    texts = {}
    for one in render(invariants={"a.yaml": invariant}):
        if one["kind"] == "ConfigMap":
            folder = "invariants/" if one["metadata"]["name"].endswith("-invariants") else ""
            texts |= {f"{folder}{name}": text for name, text in one["data"].items()}
    catalog = build_catalog(texts, environ={"PAYMENTS_REPLICA_URL": "postgresql://replica/payments"})
    assert [(one.name, database) for one, database in catalog.entries()] == [("a", "payments")]


def test_the_store_lies_on_the_volume_unless_another_is_named() -> None:
    def store(documents: list[dict[str, Any]]) -> str:
        (config,) = [one["data"]["holdtrue.yaml"] for one in documents if "holdtrue.yaml" in one.get("data", {})]
        url: str = yaml.safe_load(config)["store"]["url"]
        return url

    assert store(render()) == "sqlite:////var/lib/holdtrue/holdtrue.db"
    named = {**VALUES["config"], "store": {"url": "${STORE_URL}"}}
    assert store(render(config=named)) == "${STORE_URL}"


def test_sqlite_without_a_volume_is_refused() -> None:
    with pytest.raises(helm_python.HelmError, match="would end with the pod"):
        render(persistence={"enabled": False})


def test_a_changed_catalog_replaces_the_pod() -> None:
    def marks(**changes: Any) -> dict[str, str]:
        found: dict[str, str] = the("Deployment", render(**changes))["spec"]["template"]["metadata"]["annotations"]
        return found

    assert marks() == marks()
    assert marks()["checksum/invariants"] != marks(invariants={"b.yaml": "version: 1\n"})["checksum/invariants"]
    other = {"databases": {"other": {"replicas": [{"name": "r", "url": "${X}"}]}}}
    assert marks()["checksum/config"] != marks(config=other)["checksum/config"]


def test_secrets_come_from_the_secret_alone() -> None:
    documents = render()
    (container,) = pod(documents)["containers"]
    taken = {one["name"]: one["valueFrom"]["secretKeyRef"] for one in container["env"] if "valueFrom" in one}
    assert taken == {key: {"name": "holdtrue", "key": key} for key in VALUES["secret"]["keys"]}
    assert "Secret" not in {one["kind"] for one in documents}
    assert "HOLDTRUE_TOKEN=" not in json.dumps(documents)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"invariants": {}}, "invariants"),
        ({"config": {}}, "databases"),
        ({"config": {"databases": {}}}, "databases"),
        ({"invariants": {"..data": "x"}}, r"\.\.data"),
        ({"invariants": {"a.yaml": 1}}, "a.yaml"),
        ({"persistance": {"enabled": True}}, "persistance"),
        ({"image": {"repository": "x", "pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"secret": {"name": "x", "keys": ["HOLDTRUE_TOKEN"]}}, "keys"),
        ({"env": {"HOLDTRUE_TOKEN": "literal"}}, "HOLDTRUE_TOKEN"),
        ({"persistence": {"enabled": True, "accessMode": "ReadWriteMany"}}, "accessMode"),
        ({"resources": {"requests": {"cpu": "1"}, "limits": {"memory": None}}}, "memory"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_values_are_refused_by_name(changes: dict[str, Any], names: str) -> None:
    with pytest.raises(helm_python.HelmValuesError, match=names):
        render(**changes)


def test_the_chart_and_the_package_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((CHART.parents[1] / "pyproject.toml").read_text())["project"]
    assert chart["appVersion"] == project["version"]
