"""What reaches a terminal is what is meant: untrusted text cannot move the cursor, hide or repaint anything."""

from __future__ import annotations

import io
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.cli.terminal import marked_table, say, say_json, table, visible, wants_colour


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Ünï 日本 🙂", "Ünï 日本 🙂"),
        ("\x1b[2J\x1b[1;32mholds", "\\x1b[2J\\x1b[1;32mholds"),
        ("a\rb\nc\td", "a\\rb\\nc\\td"),
        ("dsp_\u202e1", "dsp_\\u202e1"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("\x9b31m", "\\x9b31m"),
        ("line\u2028feed", "line\\u2028feed"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_would_steer_a_terminal_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_nothing_visible_steers_a_terminal(text: str) -> None:
    assert not any(unicodedata.category(one) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} for one in visible(text))


@given(st.lists(st.tuples(st.text(), st.text(), st.text()), min_size=1, max_size=6))
def test_a_table_has_a_line_for_each_row_whatever_the_cells_say(rows: list[tuple[str, str, str]]) -> None:
    lines = table(rows, headings=("A", "B", "C"))
    assert len(lines) == len(rows) + 1
    assert all("\n" not in line for line in lines)


def test_columns_stand_in_line_with_wide_and_combining_characters() -> None:
    lines = table([("日本", "x"), ("e\u0301", "x"), ("abcd", "x")])
    assert lines == ["日本  x", "e\u0301     x", "abcd  x"]


def test_rows_that_count_stand_before_those_that_do_not_each_with_what_it_is() -> None:
    lines = marked_table([("a",), ("b",), ("c",)], ("id",), ("waived", "new", ""))
    assert [line.split() for line in lines] == [["ROW", "IS", "id"], ["new", "b"], ["counted", "c"], ["waived", "a"]]
    assert marked_table([("a",)], ("id",), ()) == ["id", "a"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "coloured"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colour_is_for_terminals_and_only_where_wanted(
    stream: io.StringIO, environ: dict[str, str], coloured: bool
) -> None:
    assert wants_colour(stream, environ) is coloured


@given(value=st.dictionaries(st.text(), st.text()))
def test_json_is_ascii_and_whole(value: dict[str, str]) -> None:
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        say_json(value)
    assert stream.getvalue().isascii()
    assert json.loads(stream.getvalue()) == value


def test_a_terminal_in_an_old_locale_gets_escapes_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    say("1 violated · ▁▂█")
    assert raw.getvalue() == b"1 violated \\xb7 \\u2581\\u2582\\u2588\n"
