"""Table names, and how they are distinguished from paths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.catalogs.errors import InvalidTableNameError
from airflow_delta.catalogs.table_name import TableName, is_path


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("sales.orders", TableName("orders", "sales")),
        ("main.sales.orders", TableName("orders", "sales", "main")),
        ("`my sales`.`a.b`", TableName("a.b", "my sales")),
        ("main.`x``y`.t-1", TableName("t-1", "x`y", "main")),
        (" sales.orders ", TableName("orders", "sales")),
    ],
)
def test_a_name_is_read(text, name):
    assert TableName.parse(text) == name
    assert TableName.parse(str(name)) == name


@pytest.mark.parametrize(
    "text",
    [
        "orders",
        "a.b.c.d",
        "sales.",
        ".orders",
        "sales..orders",
        "`sales.orders",
        "a b.c",
        "sales.`a/b`",
        "",
        "a.`b\nc`",
        "sales.`..`",
        "`.`.orders",
        "a." + "b" * 256,
    ],
)
def test_what_is_no_name_is_refused(text):
    with pytest.raises(InvalidTableNameError):
        TableName.parse(text)


characters = st.characters(blacklist_characters="/\\", blacklist_categories=("Cc", "Cs"))
parts = st.text(characters, min_size=1, max_size=20).filter(lambda part: part.strip() not in {"", ".", ".."})


@given(parts, parts, st.none() | parts)
def test_every_name_is_read_back_from_its_text(table, schema, catalog):
    name = TableName(table, schema, catalog)
    assert TableName.parse(str(name)) == name
    assert not is_path(str(name))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("s3://lake/orders", True),
        ("file:/lake", True),
        ("sales/orders", True),
        ("./sales.orders", True),
        ("orders", True),
        (".", True),
        ("sales.orders", False),
        ("`sales`.`or.ders`", False),
    ],
)
def test_a_word_with_a_scheme_or_a_slash_is_a_path(text, path):
    assert is_path(text) is path


def test_a_name_of_another_catalog_is_refused():
    TableName("orders", "sales", "Spark_Catalog").check_in("glue_catalog", "spark_catalog")
    TableName("orders", "sales").check_in("glue_catalog")
    with pytest.raises(InvalidTableNameError, match=r"prod\.sales\.orders.*called glue_catalog or spark_catalog, or left out"):
        TableName("orders", "sales", "prod").check_in("glue_catalog", "spark_catalog")
