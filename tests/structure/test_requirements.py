"""Pins are complete, hashed, alike in every file, and name no host."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FILES = ["run", "demo", "dev", "build", "uv"]
EXTRAS = {"run": "service", "demo": "demo", "dev": "dev"}


def pins(name: str) -> dict[str, Version]:
    """What a file of pins fixes."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return {
        canonicalize_name(match["name"]): Version(match["version"])
        for match in re.finditer(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^ ;\\]+)", text, re.MULTILINE)
    }


def wanted(extra: str) -> list[Requirement]:
    """What the package asks for under an extra, its own extras resolved."""
    found = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
    waiting = [extra]
    while waiting:
        for line in PROJECT["project"]["optional-dependencies"][waiting.pop()]:
            requirement = Requirement(line)
            if requirement.name == PROJECT["project"]["name"]:
                waiting.extend(requirement.extras)
            else:
                found.append(requirement)
    return found


@pytest.mark.parametrize("name", FILES)
def test_every_pin_has_a_hash_and_no_line_names_a_host(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    blocks = re.split(r"\n(?=\S)", text.strip())
    assert len(blocks) == len(pins(name)) > 0
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", block) for block in blocks)
    assert "://" not in text


@pytest.mark.parametrize("name", EXTRAS)
def test_the_pins_satisfy_pyproject(name: str) -> None:
    pinned = pins(name)
    unmet = [
        str(one)
        for one in wanted(EXTRAS[name])
        if canonicalize_name(one.name) not in pinned or pinned[canonicalize_name(one.name)] not in one.specifier
    ]
    assert unmet == [], "run `make lock`"


def test_the_files_agree() -> None:
    run, demo, dev = pins("run"), pins("demo"), pins("dev")
    assert run.items() <= demo.items()
    assert demo.items() <= dev.items()


def test_what_builds_the_package_is_pinned() -> None:
    pinned = pins("build")
    for line in PROJECT["build-system"]["requires"]:
        requirement = Requirement(line)
        assert pinned[canonicalize_name(requirement.name)] in requirement.specifier


def test_what_is_installed_here_is_what_is_pinned() -> None:
    direct = {canonicalize_name(one.name) for one in wanted("dev")}
    pinned = pins("dev")
    assert {name: version(name) for name in direct} == {name: str(pinned[name]) for name in direct}
