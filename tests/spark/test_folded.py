"""Many terms combined into one, nested as little as can be."""

import pytest

from airflow_delta.spark.folded import folded


@pytest.mark.parametrize(("terms", "expected"), [("a", "a"), ("ab", "(ab)"), ("abc", "(a(bc))"), ("abcde", "((ab)(c(de)))")])
def test_terms_keep_their_order_and_are_halved(terms, expected):
    assert folded(lambda left, right: f"({left}{right})", terms) == expected


def test_a_thousand_terms_are_ten_levels():
    assert folded(lambda left, right: max(left, right) + 1, [0] * 1_000) == 10
