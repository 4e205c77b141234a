"""Where ``diff`` finds the former texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdtrue.errors import Refused
from holdtrue.inspection import read_former


def test_a_folder_without_a_catalog_is_named_and_init_is_not(tmp_path: Path) -> None:
    """The holdtrue.yaml of this folder is there: the message must not send anybody to make one."""
    config = tmp_path / "holdtrue.yaml"
    config.write_text("version: 1\ninvariants: invariants\n", encoding="utf-8")
    empty = tmp_path / "then"
    empty.mkdir()
    with pytest.raises(Refused, match=r"the folder .*then has no holdtrue\.yaml") as refused:
        read_former(config, str(empty), environ={})
    assert "init" not in f"{refused.value} {refused.value.remedy}"
