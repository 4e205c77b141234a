"""What the demo tells a person to type: a line that works in the terminal where it is typed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdtrue.demo.narration import commands_folder


def commands(folder: Path) -> Path:
    folder.mkdir()
    (folder / "holdtrue").write_text("#!/bin/sh\n")
    (folder / "holdtrue").chmod(0o755)
    return folder


def test_the_folder_of_the_commands_is_named_where_typing_the_name_would_not_find_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = commands(tmp_path / "ours"), commands(tmp_path / "other")
    monkeypatch.setattr(sys, "executable", str(ours / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commands_folder() == ours
    monkeypatch.setenv("PATH", f"{other}:{ours}")
    assert commands_folder() == ours, "another holdtrue comes first"
    monkeypatch.setenv("PATH", f"{ours}:{other}")
    assert commands_folder() is None
