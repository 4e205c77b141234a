"""The shipped alerting rules: they parse, they behave, and they read only metrics that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from holdtrue.metrics import METRICS
from servers.service import holdtrue

DEPLOY = Path(__file__).parents[2] / "deploy" / "prometheus"
RULES = DEPLOY / "holdtrue.rules.yml"
TESTS = DEPLOY / "tests"

VIOLATED = (
    "max by (invariant, database, severity, owner)(holdtrue_firing) == 1 or "
    "(max by (invariant, database, severity, owner)(last_over_time(holdtrue_firing[15m])) == 1 "
    "unless on (invariant, database) holdtrue_firing)"
)


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run promtool, which `make system` puts on the PATH."""
    found = shutil.which("promtool")
    assert found is not None, "promtool is missing: run `make system`"
    return subprocess.run([found, *arguments], capture_output=True, text=True, timeout=60, cwd=TESTS, check=False)


def expressions() -> dict[str, list[str]]:
    """Every rule's expression by its alert's name."""
    found: dict[str, list[str]] = {}
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            found.setdefault(rule["alert"], []).append(" ".join(rule["expr"].split()))
    return found


def test_promtool_accepts_the_rules() -> None:
    done = promtool("check", "rules", "--lint-fatal", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_fire_stay_and_clear_as_their_own_tests_say() -> None:
    """semantics 10: sticky over absence, and clear at once on an explicit 0."""
    done = promtool("test", "rules", *(path.name for path in sorted(TESTS.glob("*.yml"))))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_is_tried_with_two_instances_that_say_the_same() -> None:
    """semantics 10: each of them exports what the store has, and people are told once."""
    cases = [case for path in TESTS.glob("*.yml") for case in yaml.safe_load(path.read_text())["tests"]]
    (case,) = [one for one in cases if one["name"] == "two instances that say the same are one alert, by every rule"]
    assert {one["alertname"] for one in case["alert_rule_test"]} == set(expressions()) - {"HoldtrueDown"}


def test_a_rule_that_is_not_sticky_fails_those_tests(tmp_path: Path) -> None:
    """The tests can fail: the naive rule resolves the moment a scrape is missing."""
    naive = RULES.read_text().replace("last_over_time(holdtrue_firing[15m])", "holdtrue_firing")
    (tmp_path / RULES.name).write_text(naive)
    (tmp_path / "tests").mkdir()
    test = TESTS / "holdtrue.rules.test.yml"
    (tmp_path / "tests" / test.name).write_text(test.read_text())
    done = promtool("test", "rules", str(tmp_path / "tests" / test.name))
    assert done.returncode != 0
    assert "HoldtrueViolated" in done.stdout + done.stderr


def test_the_rule_on_firing_is_the_one_the_rules_of_the_house_name() -> None:
    """semantics 10, word for word."""
    assert expressions()["HoldtrueViolated"] == [VIOLATED]


def test_the_shipped_file_is_what_the_command_prints(tmp_path: Path) -> None:
    ended = holdtrue("rules", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == RULES.read_text()
    assert "all rules are printed" in ended.stderr


CONFIG = """databases:
  payments: {replicas: [{name: r1, url: "sqlite:///p.db"}], allow_primary: true}
notifiers: {cluster: {kind: alertmanager, urls: ["http://127.0.0.1:9093"], token: "${NOT_SET_HERE}"}}
"""


def test_what_a_push_tells_has_no_rule_beside_it_unless_asked_for(tmp_path: Path) -> None:
    """Decision 0012: never page twice by default. What is left stands by itself."""
    (tmp_path / "holdtrue.yaml").write_text(CONFIG)
    ended = holdtrue("rules", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "cluster" in ended.stderr
    names = {rule["alert"] for group in yaml.safe_load(ended.stdout)["groups"] for rule in group["rules"]}
    everything = set(expressions())
    assert everything - names == {
        *("HoldtrueViolated", "HoldtrueUnchecked", "HoldtrueDatabaseUnreachable", "HoldtrueToldTwice"),
    }
    assert "holdtrue_firing" not in ended.stdout
    (tmp_path / "few.yml").write_text(ended.stdout)
    done = promtool("check", "rules", "--lint-fatal", str(tmp_path / "few.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert holdtrue("rules", "--all", cwd=tmp_path).stdout == RULES.read_text()


def test_a_configuration_that_cannot_be_read_is_no_reason_to_print_everything(tmp_path: Path) -> None:
    """Decision 0012: whoever names a file means it."""
    (tmp_path / "holdtrue.yaml").write_text(CONFIG.replace("alertmanager", "alertmanagr"))
    for arguments in (("rules",), ("rules", "--config", "other.yaml")):
        ended = holdtrue(*arguments, cwd=tmp_path)
        assert ended.returncode == 2, ended.stderr
        assert ended.stdout == ""


def test_no_rule_reads_the_count_of_violations() -> None:
    """semantics 10: a rule on it would resolve the moment a database goes down."""
    text = " ".join(one for rules in expressions().values() for one in rules)
    assert "holdtrue_violations" not in text


@pytest.mark.parametrize("name", sorted(set(re.findall(r"holdtrue_[a-z_]+", RULES.read_text()))))
def test_every_metric_that_a_rule_reads_exists(name: str) -> None:
    assert name in {metric.name for metric in METRICS}
