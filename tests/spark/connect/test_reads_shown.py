"""The table reads that a statement over Spark Connect finds in the text of a plan."""

import json
from types import SimpleNamespace

import pytest

from airflow_delta.spark.errors import SparkConnectUnsupportedError
from airflow_delta.spark.io.read_marks import MARK, marked, shown_reads, shows_subquery
from airflow_delta.spark.statement.target_reads import _Target

PLAN = """== Parsed Logical Plan ==
'SubqueryAlias not_looked_at

== Analyzed Logical Plan ==
id: bigint, name: string
Filter (id#51L IN (list#52 []) OR (id#51L = scalar-subquery#53 []))
:  :- Project [id#54L]
:  :  +- SubqueryAlias {alias}
:  :     +- Project [id#54L]
:  :        +- Relation [id#54L] parquet
:  +- Aggregate [max(id#55L) AS max(id)#57L]
:     +- RelationV2[id#55L] delta
+- SubqueryAlias spark_catalog.default.foo
   +- Relation [id#51L,name#52] csv

== Optimized Logical Plan ==
Relation [id#51L] orc

== Physical Plan ==
"""


class Rows:
    """Rows of a session of Spark Connect, as far as their alias."""

    sparkSession = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()  # noqa: N815 - PySpark's name

    def alias(self, name):
        return name


@pytest.fixture
def alias():
    return marked(Rows(), SimpleNamespace(mark=json.dumps({"table": "file:/lake/é", "newest": 3})))


def test_reads_are_found_in_the_analyzed_plan_and_its_subqueries_and_what_is_ours_counts_once(alias):
    marks = ("mark", '{"table": "file:/lake/\\u00e9", "newest": 3}')
    assert [*shown_reads(PLAN.format(alias=alias))] == [
        marks,
        ("RelationV2", "[id#55L] delta"),
        ("Relation", " [id#51L,name#52] csv"),
    ]
    assert marks[0] == MARK


def test_a_text_of_the_query_hides_no_read_that_is_shown_behind_it(alias):
    condition = "Filter NOT (name#52 = Contents\n\n== Section ==\nof a text)\n"
    shown = PLAN.format(alias=alias).replace("Filter (", f"{condition}+- Filter (", 1)
    assert ("Relation", " [id#51L,name#52] csv") in [*shown_reads(shown)]


@pytest.mark.parametrize("looks", [lambda plan: [*shown_reads(plan)], shows_subquery])
def test_a_plan_that_is_not_shown_to_its_end_is_refused(alias, looks):
    whole = PLAN.format(alias=alias)
    with pytest.raises(SparkConnectUnsupportedError, match="maxPlanStringLength"):
        looks(f"{whole[: whole.index('csv')]}... 74 more characters")


def test_rows_of_a_classic_session_stay_as_they_are():
    rows = SimpleNamespace(sparkSession=object())
    assert marked(rows, None) is rows


@pytest.mark.parametrize(
    ("inner", "is_shown"), [("", False), (":  +- Project [id#54L]\n:     +- Range (0, 3, step=1)\n", True)]
)
def test_a_second_branch_is_a_subquery(inner, is_shown):
    analyzed = f"Filter (id#1L > scalar-subquery#2 [])\n{inner}+- SubqueryAlias target\n   +- LocalRelation <empty>, [id#1L]"
    assert shows_subquery(f"== Analyzed Logical Plan ==\nid: bigint\n{analyzed}\n\n== Optimized Logical Plan ==\n") is is_shown


@pytest.mark.parametrize(
    ("names", "may_be_the_table"),
    [
        (["id", "At Noon", "ü.ä"], True),
        (["id", "At Noon", "ü.ä", "more"], True),
        (["id", "At Noon-", "ü.ä"], False),
        (["id", "Noon"], False),
    ],
)
def test_a_relation_may_be_the_table_if_its_names_end_in_the_words_that_are_shown(names, may_be_the_table):
    snapshot = SimpleNamespace(schema=SimpleNamespace(names=names))
    assert _Target(None, snapshot)._may_show("[id#1L, At Noon#2, ü.ä#3] delta") is may_be_the_table


def test_a_relation_may_be_the_change_feed_of_the_table():
    snapshot = SimpleNamespace(schema=SimpleNamespace(names=["id"]))
    feed = "[id#1L, _change_type#2, _commit_version#3L, _commit_timestamp#4] delta"
    assert _Target(None, snapshot)._may_show(feed)
    assert not _Target(None, snapshot)._may_show(feed.replace("id#1L", "other#1L"))
