"""What is committed speaks of this project alone and carries no secret, host or machine of anybody."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRACKED = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    if name
]

# A letter in brackets keeps each pattern from finding itself.
WORDS = {
    "a machine's path": r"/wor[k]/|/roo[t]/|/hom[e]/(?!dev/|<)[a-z]+/|/User[s]/[a-z]",
    "a folder outside the repository": r"\.\./share[d]",
    "a registry's host": r"pypi\.or[g]|pythonhosted\.or[g]|npmjs\.or[g]|deb\.debian\.or[g]|--(extra-)?index-ur[l]",
    "a tracker's number": r"\b[Ii]ssu[e] #?\d+\b|\bissues sho[w]\b|\bclose[sd]? #\d+",
    "how it was written": (
        r"\bhelpe[r]s?\b|\bthe lea[d] (engineer|session)\b|\bcoding agen[t]\b|\bhouse rule[s]\b"
        r"|\bClaud[e]\b|\bChatGP[T]\b|\bCopilo[t]\b|\blanguage mode[l]\b"
    ),
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KE[Y]-----",
    "a live token": r"xox[bp]-\d{6,}-\d+|gh[ps]_[A-Za-z0-9]{36}|AKIA[0-9A-Z]{16}",
}


def texts() -> list[tuple[str, str]]:
    """Path and text of every tracked text file that is still there."""
    found = []
    for path in TRACKED:
        if path.is_file():
            try:
                found.append((str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")))
            except UnicodeDecodeError:
                continue
    return found


@pytest.mark.parametrize("what", WORDS)
def test_no_tracked_file_names(what: str) -> None:
    pattern = re.compile(WORDS[what])
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_the_patterns_find_what_they_name() -> None:
    examples = {
        "a machine's path": "open('/wor" + "k/main/x')",
        "a folder outside the repository": "see ../sha" + "red/design.md",
        "a registry's host": "https://pypi" + ".org/simple",
        "a tracker's number": "as issu" + "e 12 says",
        "how it was written": "a hel" + "per",
        "a private key": "-----BEGIN RSA PRIVATE KE" + "Y-----",
        "a live token": "ghp" + "_" + "a" * 36,
    }
    assert {what for what, text in examples.items() if re.search(WORDS[what], text)} == set(WORDS)


def test_nothing_is_committed_that_make_brings_in_or_a_person_keeps_for_herself() -> None:
    private = re.compile(r"(^|/)(\.env|\.venv|\.bootstrap|\.cache|uv\.lock|node_modules|__pycache__|.*\.db)(/|$)")
    assert [str(path) for path in TRACKED if private.search(str(path.relative_to(ROOT)))] == []


ESCAPES = {"skip", "skipif", "xfail", "importorskip", "skipTest", "skipUnless", "skipIf"}


def escapes(source: str) -> list[int]:
    """Lines of code, not of texts, that skip a test or expect it to fail."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and node.attr in ESCAPES
        and ast.unparse(node.value) in {"pytest", "pytest.mark", "unittest", "self"}
    ]


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    found = {
        name: lines
        for name, text in texts()
        if name.startswith("tests/") and name.endswith(".py")
        for lines in [escapes(text)]
        if lines
    }
    assert found == {}


def test_an_escape_is_found_in_code_and_not_in_a_text() -> None:
    assert escapes("import pytest\nx = 'pytest.skip()'\n@pytest.mark.xfail\ndef test_it(): pytest.skip('no')\n") == [
        3,
        4,
    ]


def sleeps_outside_loops(source: str) -> list[int]:
    """Lines that call ``time.sleep`` once: inside a loop it is the pause of a bounded wait for an event."""
    found = []
    waiting: list[tuple[ast.AST, bool]] = [(ast.parse(source), False)]
    while waiting:
        node, looped = waiting.pop()
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"time.sleep", "sleep"} and not looped:
            found.append(node.lineno)
        looped = (looped or isinstance(node, ast.While | ast.For)) and not isinstance(node, ast.FunctionDef)
        waiting.extend((child, looped) for child in ast.iter_child_nodes(node))
    return found


def test_no_test_sleeps_to_decide_an_order() -> None:
    found = {
        name: lines
        for name, text in texts()
        if re.search(r"^tests/.*\b(test_\w+|conftest)\.py$", name)
        for lines in [sleeps_outside_loops(text)]
        if lines
    }
    assert found == {}


def test_a_lone_sleep_is_found_and_the_pause_of_a_wait_is_not() -> None:
    assert sleeps_outside_loops("import time\ntime.sleep(1)\nwhile not ready():\n    time.sleep(0.01)\n") == [2]
