"""New values of columns with a collation are texts of this collation, for the rules of the table and for its partitions."""

import pytest
from deltalake import DeltaTable as ReferenceTable

from airflow_delta.spark import sql


@pytest.fixture
def name(tmp_path):
    """A table that is not there yet, as SQL names it."""
    return f"delta.`{tmp_path}/table`"


def rows_of(spark, name):
    return sorted(tuple(row) for row in sql(spark, f"SELECT * FROM {name}").collect())


def test_rules_about_a_collated_column_hold_for_updated_and_merged_texts_of_another_case(spark, name):
    columns = "id INT, s STRING COLLATE UTF8_LCASE, is_a BOOLEAN GENERATED ALWAYS AS (s = 'a')"
    sql(spark, f"CREATE TABLE {name} ({columns}) USING delta")
    sql(spark, f"INSERT INTO {name} (id, s) VALUES (1, 'a'), (2, 'b')")
    sql(spark, f"ALTER TABLE {name} ADD CONSTRAINT known CHECK (s IN ('a', 'b'))")

    sql(spark, f"UPDATE {name} SET s = 'A' WHERE id = 2")
    source = "(SELECT * FROM VALUES (1, 'B'), (3, 'A') AS rows(id, s)) s"
    clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    sql(spark, f"MERGE INTO {name} t USING {source} ON t.id = s.id {clauses}")

    assert rows_of(spark, name) == [(1, "B", False), (2, "A", True), (3, "A", True)]


def test_rules_about_collated_texts_inside_of_columns_hold_for_updated_texts_of_another_case(spark, name):
    columns = "id INT, st STRUCT<s: STRING COLLATE UTF8_LCASE>, a ARRAY<STRING COLLATE UTF8_LCASE>"
    sql(spark, f"CREATE TABLE {name} ({columns}) USING delta")
    sql(spark, f"INSERT INTO {name} VALUES (1, named_struct('s', 'a'), array('x'))")
    sql(spark, f"ALTER TABLE {name} ADD CONSTRAINT known CHECK (st.s = 'a' AND array_contains(a, 'x'))")

    sql(spark, f"UPDATE {name} SET st.s = 'A', a = array('X')")

    assert rows_of(spark, name) == [(1, ("A",), ["X"])]


@pytest.mark.parametrize("deletion_vectors", ["true", "false"])
def test_an_updated_collated_partition_column_moves_rows_also_where_only_the_case_changes(
    spark, tmp_path, name, deletion_vectors
):
    layout = f"PARTITIONED BY (p) TBLPROPERTIES ('delta.enableDeletionVectors' = '{deletion_vectors}')"
    sql(spark, f"CREATE TABLE {name} (id INT, p STRING COLLATE UTF8_LCASE) USING delta {layout}")
    sql(spark, f"INSERT INTO {name} VALUES (1, 'X'), (2, 'x'), (3, 'y')")

    sql(spark, f"UPDATE {name} SET p = 'x' WHERE p = 'X'")

    assert rows_of(spark, name) == [(1, "x"), (2, "x"), (3, "y")]
    if deletion_vectors == "false":  # which deltalake does not read
        assert sorted(ReferenceTable(f"{tmp_path}/table").to_pyarrow_table().column("p").to_pylist()) == ["x", "x", "y"]
