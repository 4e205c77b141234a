"""The image is small, confined and pinned; what would install things stays in the build stage."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
BUILD, FINAL = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]


def test_hadolint_finds_nothing() -> None:
    ended = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), "--failure-threshold", "style", "--no-color", ROOT / "Dockerfile"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


def test_every_dependency_is_installed_by_hash_and_nothing_else_is() -> None:
    installs = re.findall(r"pip install[^&]*", BUILD.replace("\\\n", " "))
    assert len(installs) == 3
    for line in installs:
        assert "--require-hashes" in line or "--no-deps /wheels/" in line, line
    assert "pip install" not in FINAL
    assert "apt-get" not in DOCKERFILE


def test_the_final_stage_runs_as_a_number_that_is_not_root() -> None:
    users = re.findall(r"^USER (\S+)$", FINAL, flags=re.MULTILINE)
    assert users == ["10001:10001"]


def test_the_final_stage_has_no_installer() -> None:
    assert "pip uninstall" in FINAL
    assert "/opt/holdtrue/bin/pip uninstall" in BUILD
    assert "/opt/build" not in FINAL


def test_health_is_asked_of_the_process() -> None:
    assert re.search(r"^HEALTHCHECK .*\\\n +CMD \[.*127\.0\.0\.1:8080/healthz", FINAL, flags=re.MULTILINE)


def test_the_base_image_has_a_tag_with_its_version() -> None:
    assert BUILD.split()[0] == FINAL.split()[0]
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", FINAL.split()[0])


def test_the_build_context_is_what_the_image_is_made_of() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    copied = {
        word.rstrip("/").partition("/")[0]
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", BUILD, flags=re.MULTILINE)
        for word in line.split()
    }
    assert {line[1:] for line in lines if line.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)
