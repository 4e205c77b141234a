"""The YAML that a catalog reads: places, scalars, duplicate keys, merge keys, and what must not hurt."""

from __future__ import annotations

import pytest

from catalogs import accepted, item, look, one, refused, the_refusal
from holdtrue.catalog.nodes import DEPTH_LIMIT, Kind, Mapping, Scalar, Sequence, compose
from holdtrue.model import Problem

SQL = "sql: SELECT id FROM orders WHERE total < 0"


def _compose(text: str) -> tuple[object, list[Problem]]:
    problems: list[Problem] = []
    return compose("f.yaml", text, problems), problems


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("on", Kind.TEXT),
        ("off", Kind.TEXT),
        ("yes", Kind.TEXT),
        ("No", Kind.TEXT),
        ("1:30", Kind.TEXT),
        ("12:30:00", Kind.TEXT),
        ("1_000", Kind.TEXT),
        ("2027-01-31", Kind.TEXT),
        ("true", Kind.FLAG),
        ("FALSE", Kind.FLAG),
        ("~", Kind.NULL),
        ("", Kind.NULL),
        ("017", Kind.INTEGER),
        ("0o17", Kind.INTEGER),
        ("0x1f", Kind.INTEGER),
        ("-3", Kind.INTEGER),
        ("1e3", Kind.FLOAT),
        (".5", Kind.FLOAT),
        (".inf", Kind.FLOAT),
        ("'true'", Kind.TEXT),
        ('"1"', Kind.TEXT),
    ],
)
def test_plain_scalars_mean_what_yaml_1_2_core_says(written: str, kind: Kind) -> None:
    """semantics 1.4"""
    root, problems = _compose(f"a: {written}\n")
    assert not problems
    assert isinstance(root, Mapping)
    value = root.entries["a"][1]
    assert isinstance(value, Scalar)
    assert value.kind is kind


def test_every_node_knows_its_line_and_column() -> None:
    root, _ = _compose("a:\n  - b: c\n    d: [e, f]\n")
    assert isinstance(root, Mapping)
    listed = root.entries["a"][1]
    assert isinstance(listed, Sequence)
    inner = listed.items[0]
    assert isinstance(inner, Mapping)
    key, value = inner.entries["d"]
    assert (key.place.line, key.place.column) == (3, 5)
    assert isinstance(value, Sequence)
    assert (value.items[1].place.line, value.items[1].place.column) == (3, 12)


def test_a_duplicate_key_is_refused_with_both_lines() -> None:
    """semantics 1.4"""
    problem = the_refusal(item(f"{SQL}\nseverity: info\nseverity: warning"))
    assert (problem.place.line, problem.place.column) == (6, 5)
    assert "first on line 5, again on line 6" in problem.message
    assert problem.offending == "severity"


def test_a_key_once_as_word_and_once_in_quotes_is_a_duplicate() -> None:
    assert "duplicate key" in the_refusal(item(f"{SQL}\nowner: a\n'owner': b")).message


def test_merge_keys_give_defaults_and_are_no_duplicates() -> None:
    """semantics 1.4: the local value stands, and the first of several merged mappings wins"""
    catalog = accepted(
        """
        defaults: &base
          database: shop
          interval: 5m
          severity: critical
        invariants:
          - &first
            <<: *base
            name: first
            severity: info
            sql: SELECT id FROM orders WHERE total < 0
          - <<: [{owner: finance}, *first]
            name: second
        """
    )
    first, second = catalog.invariants
    assert (str(first.severity), str(second.severity)) == ("info", "info")
    assert (second.owner, second.sql) == ("finance", first.sql)
    assert first.schedule == second.schedule


def test_the_problem_of_an_anchor_is_told_once_however_often_it_is_used() -> None:
    found = refused(
        """
        defaults: &base {database: shop, interval: 90}
        invariants:
          - {<<: *base, name: first, sql: SELECT id FROM orders WHERE a}
          - {<<: *base, name: second, sql: SELECT id FROM orders WHERE b}
        """
    )
    assert [(problem.place.line, problem.offending) for problem in found] == [(2, "90")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1, 2\n", "did not find expected"),
        ("a: 'x\n", "quoted scalar"),
        ("\ta: b\n", "indent with spaces"),
        ("schedule: */5 * * * *\n", "cron line"),
        ("a: *nobody\n", "no anchor"),
        ("a: &a [*a]\n", "inside of what it names"),
        ("a: b\n---\nc: d\n", "second one"),
        ("a: !!python/object/apply:os.system [x]\n", "tags are not understood"),
        ("a: \x07\n", "control character"),
        ("? [a, b]\n: c\n", "a key must be a word"),
        ("<<: x\n", "takes a mapping"),
        ("a: \udcff\n", "not UTF-8"),
    ],
)
def test_a_broken_file_is_a_problem_at_a_place(text: str, says: str) -> None:
    _, problems = _compose(text)
    assert len(problems) == 1
    assert says in problems[0].message
    assert problems[0].place.line >= 1
    assert problems[0].place.column >= 1


def test_the_place_of_a_byte_that_is_no_utf_8_is_told() -> None:
    _, problems = _compose("a: b\nc: d\udcfce\n")
    assert (problems[0].place.line, problems[0].place.column) == (2, 5)


def test_aliases_that_stand_for_billions_of_values_are_refused_before_they_are_built() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    root, problems = _compose("\n".join(lines))
    assert root is None
    assert "too many values" in problems[0].message


def test_a_long_list_that_is_repeated_hundreds_of_times_is_refused() -> None:
    """Not billions, but enough to make a reload slow: aliases save typing, they do not make data."""
    text = f"a: &a [{', '.join(['x'] * 500)}]\nb: [{', '.join(['*a'] * 300)}]\n"
    root, problems = _compose(text)
    assert root is None
    assert (problems[0].place.line, "too many values" in problems[0].message) == (2, True)


@pytest.mark.parametrize("opener", ["[", "{a: ", "- ", "? "])
def test_a_nest_deeper_than_any_use_is_refused(opener: str) -> None:
    root, problems = _compose(opener * 5000)
    assert root is None
    assert len(problems) == 1
    assert "nest" in problems[0].message


def test_a_nest_within_the_limit_is_read() -> None:
    root, problems = _compose("[" * (DEPTH_LIMIT - 1) + "]" * (DEPTH_LIMIT - 1))
    assert root is not None
    assert not problems


def test_a_syntax_error_does_not_repeat_the_line_that_may_hold_a_secret() -> None:
    found = look(item(SQL), "databases:\n  shop: {replicas: [{name: r, password: 'hunter2\n")
    assert found.catalog is None
    assert not any("hunter2" in str(problem) for problem in found.problems)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_beside_a_full_one_is_no_problem(text: str) -> None:
    assert accepted({"invariants/a.yaml": text, "invariants/b.yaml": item(SQL)}).invariants


@pytest.mark.parametrize("text", ["just words\n", "[a, b]\n", "42\n"])
def test_a_file_that_is_no_mapping_is_refused(text: str) -> None:
    assert "must be a mapping" in the_refusal({"invariants/a.yaml": text, "invariants/b.yaml": item(SQL)}).message


def test_names_that_older_yaml_reads_as_flags_stay_words() -> None:
    """semantics 1.4"""
    assert (
        accepted("defaults: {database: shop}\ninvariants:\n  - {name: on, sql: SELECT 1 WHERE 1 = 0}\n")
        .invariants[0]
        .name
        == "on"
    )


def test_the_text_reaches_us_byte_for_byte_in_every_quoting() -> None:
    """semantics 1.7"""
    sql = "SELECT id FROM orders WHERE note LIKE '50%%' AND tag = '{a}' AND x = ':y' AND \"Mixed\" > 0"
    assert one(f"sql: |-\n  {sql}").sql == sql
    assert one(f"sql: {sql!r}".replace("\\'", "''")).sql == sql
