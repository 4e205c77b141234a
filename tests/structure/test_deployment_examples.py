"""The examples of deploy/ are valid, confined and agree with the image."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from holdtrue.metrics.names import METRICS
from holdtrue.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
UNIT = (DEPLOY / "systemd" / "holdtrue.service").read_text()


def test_every_compose_service_is_confined_and_listens_on_loopback() -> None:
    for name, service in COMPOSE["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert re.search(r":v?\d+\.\d+", service["image"]), name


def test_compose_names_only_volumes_secrets_and_files_that_there_are() -> None:
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            if source.startswith("./"):
                assert (DEPLOY / source).is_dir(), source
            elif not source.startswith("../holdtrue/"):  # the user's own
                assert source in COMPOSE["volumes"]
        assert set(service.get("secrets", [])) <= set(COMPOSE.get("secrets", {}))
        for word in service.get("command", []):
            if match := re.search(r"=/etc/(prometheus|alertmanager)/(.+)$", word):
                assert (DEPLOY / match[1] / match[2]).is_file(), word


def test_compose_refuses_to_start_without_secrets() -> None:
    environment = COMPOSE["services"]["holdtrue"]["environment"]
    assert all(re.fullmatch(r"\$\{\w+:\?.+\}", value) for value in environment.values())
    assert {"HOLDTRUE_LEDGER_SECRET", "HOLDTRUE_TOKEN"} <= set(environment)


def test_compose_runs_as_the_user_of_the_image() -> None:
    assert f"USER {COMPOSE['services']['holdtrue']['user']}\n" in (ROOT / "Dockerfile").read_text()


def test_alertmanager_accepts_its_example() -> None:
    amtool = shutil.which("amtool")
    assert amtool, "run `make system`"
    ended = subprocess.run(
        [amtool, "check-config", DEPLOY / "alertmanager" / "alertmanager.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_prometheus_accepts_its_example_and_finds_its_rules() -> None:
    promtool = shutil.which("promtool")
    assert promtool, "run `make system`"
    config = DEPLOY / "prometheus" / "prometheus.yml"
    ended = subprocess.run(
        [promtool, "check", "config", "--syntax-only", config], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    for name in yaml.safe_load(config.read_text())["rule_files"]:
        assert (config.parent / name).is_file(), name


def test_nothing_ever_inhibits_a_violation() -> None:
    """Semantics 7.6."""
    config = yaml.safe_load((DEPLOY / "alertmanager" / "alertmanager.yaml").read_text())
    assert config["inhibit_rules"]
    for rule in config["inhibit_rules"]:
        assert rule["target_matchers"] == ['alertname = "HoldtrueUnchecked"']
        assert rule["equal"] == ["database"]


def test_a_database_that_is_down_is_one_notification_and_each_violation_its_own() -> None:
    """Semantics 7.4, 7.6: what is unchecked is grouped by database alone, where it is not inhibited, and nothing else is."""
    route = yaml.safe_load((DEPLOY / "alertmanager" / "alertmanager.yaml").read_text())["route"]
    assert "invariant" in route["group_by"]
    grouped = {tuple(one["matchers"]): one["group_by"] for one in route["routes"] if "group_by" in one}
    assert grouped == {('alertname = "HoldtrueUnchecked"',): ["alertname", "database"]}
    assert route["routes"][0]["matchers"] == ['alertname = "HoldtrueUnchecked"']


def test_the_unit_is_confined_and_reloads_by_signal() -> None:
    directives = dict(line.split("=", 1) for line in UNIT.splitlines() if re.match(r"^[A-Z]\w*=", line))
    assert directives["DynamicUser"] == "yes"
    assert directives["ProtectSystem"] == "strict"
    assert directives["NoNewPrivileges"] == "yes"
    assert directives["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert directives["ExecStart"].endswith("/holdtrue serve")


def test_every_setting_that_the_examples_name_is_one() -> None:
    known = {f"HOLDTRUE_{name}".upper() for name in Settings.model_fields}
    files = [ROOT / "Dockerfile", *DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.service"), *(ROOT / "helm").rglob("*.*")]
    named = {
        (str(path.relative_to(ROOT)), word)
        for path in files
        if path.is_file()
        for word in re.findall(r"\bHOLDTRUE_[A-Z_]*[A-Z]\b", path.read_text())
    }
    assert named
    assert {(path, word) for path, word in named if word not in known} == set()


def test_the_grafana_dashboard_asks_for_metrics_and_labels_that_there_are() -> None:
    names = {metric.name: {*metric.labels, "instance", "job"} for metric in METRICS}
    board = json.loads((DEPLOY / "grafana" / "holdtrue.json").read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(expressions) > 8
    for expression in expressions:
        for name, matchers in re.findall(r"(holdtrue_\w+)(\{[^}]*\})?", expression):
            assert name in names, expression
            assert set(re.findall(r"(\w+)=~", matchers)) <= names[name], expression


def test_the_grafana_dashboard_shows_when_each_notifier_was_last_proven_and_which_never_was() -> None:
    """Semantics 7.7: one that was never proven has no age, and must not look like one that is."""
    board = json.loads((DEPLOY / "grafana" / "holdtrue.json").read_text())
    shown = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert "time() - max by (notifier)(holdtrue_notifier_last_proven_timestamp_seconds)" in shown
    assert "max by (notifier)(holdtrue_notifier_unproven)" in shown
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places)


def test_what_instances_share_is_aggregated_by_max_and_what_they_count_by_sum() -> None:
    """Semantics 10: every instance exports the same series of the store; a plain sum would count them once each."""
    board = json.loads((DEPLOY / "grafana" / "holdtrue.json").read_text())
    for expression in [target["expr"] for panel in board["panels"] for target in panel["targets"]]:
        for name in re.findall(r"holdtrue_\w+", expression):
            before = re.escape(name)
            wanted = r"sum by \([^)]*\)\(rate\(" if name.endswith("_total") else r"(max by \([^)]*\)|min)\("
            assert re.search(wanted + before, expression), expression
