"""A link in the catalog's folder may lead to any file of the machine; a refusal repeats nothing of it."""

from __future__ import annotations

import pytest

from catalogs import item, refused, the_refusal

SQL = "sql: SELECT a FROM t WHERE a < 0"


@pytest.mark.parametrize(
    "text",
    [
        "HOLDTRUE_LEDGER_SECRET=hidden-4711\nOTHER=x\n",
        "root:*:hidden-4711:0:99999:7:::\ndaemon:*:hidden-4711:0:99999:7:::\n",
        "password: hidden-4711\nhidden-4711: x\n",
        "hidden-4711: x\nhidden-4711: y\n",
        "- hidden-4711\n",
        "hidden-4711\n",
        "stringData:\n  token: hidden-4711\nkind: Secret\n",
    ],
)
def test_a_file_that_is_none_of_ours_is_refused_without_a_word_of_it(text: str) -> None:
    """Semantics 1.3: links to files work, wherever they lead; `check` may run on a proposal of a stranger."""
    problem = the_refusal({"invariants/a.yaml": text, "invariants/b.yaml": item(SQL)})
    assert "hidden" not in str(problem)
    assert "an invariants file" in str(problem) or "no invariants file" in str(problem)


@pytest.mark.parametrize("key", ["invariant", "Invariants", "checks", "versions"])
def test_a_slip_in_the_only_key_is_told_with_the_word_that_was_meant(key: str) -> None:
    found = refused({"invariants/a.yaml": f"{key}: []\n", "invariants/b.yaml": item(SQL)})
    assert any(key in str(one) and "did you mean" in str(one) for one in found)
