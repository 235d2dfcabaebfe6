"""The contract of every catalog: each implementation inherits the tests, and defines the fixtures ``catalog`` and ``root``."""

import dataclasses

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_delta.catalogs.catalog import publish, resolve
from airflow_delta.catalogs.entry import TableDescription, differences
from airflow_delta.catalogs.errors import TableNameNotFoundError, TableNameTakenError
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.core.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType

LONG, STRING = PrimitiveType("long"), PrimitiveType("string")
ITEM = StructType((StructField("sku", STRING, metadata={"comment": "of the shop"}), StructField("price", DecimalType(10, 2))))
SCHEMA = StructType(
    (
        StructField("id", LONG, nullable=False, metadata={"comment": "the order's number"}),
        StructField("day", PrimitiveType("date")),
        StructField("Items", ArrayType(ITEM, contains_null=False)),
        StructField("tags", MapType(STRING, ArrayType(LONG))),
    )
)
ORDERS = TableName("orders", "sales")


def described(location, **changes):
    first = TableDescription(
        location=location,
        table_id="5f0f11f2-3a7a-4d6c-8d23-3cfa1d3b1a2c",
        schema=SCHEMA,
        version=3,
        timestamp=1_700_000_000_000,
        partition_columns=("day",),
        properties={"delta.enableChangeDataFeed": "true", "team": "sales & marketing"},
        comment="orders, as they came: 'all' of them",
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("deletionVectors",),
        writer_features=("changeDataFeed", "deletionVectors"),
    )
    return dataclasses.replace(first, **changes)


class Slower:
    """A catalog whose first look-up happens right before another writer creates the name."""

    def __init__(self, catalog):
        self.catalog, self.is_first = catalog, True

    def find(self, name):
        is_first, self.is_first = self.is_first, False
        return None if is_first else self.catalog.find(name)

    def __getattr__(self, member):
        return getattr(self.catalog, member)


class CatalogContract:
    @pytest.fixture
    def table(self, root):
        return described(f"{root}/orders")

    def test_a_name_that_is_not_there_is_not_found(self, catalog):
        assert catalog.find(ORDERS) is None
        with pytest.raises(TableNameNotFoundError, match=r"sales\.orders"):
            resolve(catalog, ORDERS)

    def test_a_published_table_is_found_with_everything_that_it_is(self, catalog, table):
        publish(catalog, ORDERS, table)
        entry = resolve(catalog, ORDERS)
        assert (entry.provider, entry.location, entry.table_id) == ("delta", table.location, table.table_id)
        assert (entry.schema, entry.partition_columns, entry.version) == (SCHEMA, ("day",), 3)
        assert (dict(entry.properties), entry.comment) == (dict(table.properties), table.comment)
        assert differences(entry, table) == ()

    def test_publishing_again_changes_nothing(self, catalog, table):
        once = publish(catalog, ORDERS, table)
        assert publish(catalog, ORDERS, table) == once

    def test_columns_and_properties_that_changed_are_published(self, catalog, table):
        publish(catalog, ORDERS, table)
        wider = StructType((*SCHEMA.fields[:2], StructField("note", STRING)))
        changed = dataclasses.replace(table, schema=wider, properties={"team": "finance"}, comment=None, version=4)
        assert set(differences(resolve(catalog, ORDERS), changed)) == {"schema", "properties", "comment"}
        entry = publish(catalog, ORDERS, changed)
        assert differences(entry, changed) == ()
        assert (entry.schema, dict(entry.properties), entry.version) == (wider, {"team": "finance"}, 4)

    def test_an_older_version_does_not_replace_a_newer_one(self, catalog, table):
        publish(catalog, ORDERS, dataclasses.replace(table, version=9))
        entry = publish(catalog, ORDERS, dataclasses.replace(table, version=8, properties={"team": "late"}))
        assert (entry.version, entry.properties["team"]) == (9, "sales & marketing")

    def test_a_wide_table_goes_through_whole(self, catalog, table):
        columns = [StructField(f"column_{number}", STRING, metadata={"comment": "x" * 100}) for number in range(200)]
        wide = dataclasses.replace(table, schema=StructType(tuple(columns)), partition_columns=())
        assert differences(publish(catalog, ORDERS, wide), wide) == ()

    def test_a_name_of_a_table_elsewhere_is_refused_until_it_is_to_be_moved(self, catalog, table, root):
        publish(catalog, ORDERS, table)
        moved = dataclasses.replace(table, location=f"{root}/elsewhere", table_id="another", version=0)
        with pytest.raises(TableNameTakenError) as refused:
            publish(catalog, ORDERS, moved)
        assert refused.value.location == table.location
        assert differences(resolve(catalog, ORDERS), moved)[:2] == ("location", "table")
        entry = publish(catalog, ORDERS, moved, relocate=True)
        assert (entry.location, entry.table_id, entry.version) == (moved.location, "another", 0)

    def test_a_table_made_anew_at_its_place_is_noticed_by_its_id(self, catalog, table):
        publish(catalog, ORDERS, table)
        anew = dataclasses.replace(table, table_id="made-anew", version=0)
        assert differences(resolve(catalog, ORDERS), anew) == ("table",)
        assert publish(catalog, ORDERS, anew).table_id == "made-anew"

    def test_a_schema_that_is_not_there_is_said(self, catalog, table):
        with pytest.raises(TableNameNotFoundError, match="nowhere"):
            catalog.create(TableName("orders", "nowhere"), table)

    def test_a_dropped_name_is_gone_and_its_files_stay(self, catalog, table, tmp_path):
        here = dataclasses.replace(table, location=str(tmp_path / "orders"))
        write_deltalake(here.location, pa.table({"id": [1, 2]}))
        publish(catalog, ORDERS, here)
        assert catalog.drop(ORDERS)
        assert catalog.find(ORDERS) is None
        assert not catalog.drop(ORDERS)
        assert DeltaTable(here.location).to_pyarrow_table().num_rows == 2

    def test_a_dropped_name_is_free_for_another_table(self, catalog, table, root):
        publish(catalog, ORDERS, table)
        catalog.drop(ORDERS)
        other = dataclasses.replace(table, location=f"{root}/other", table_id="another", version=0)
        assert differences(publish(catalog, ORDERS, other), other) == ()

    def test_a_name_that_another_task_has_meanwhile_given_this_very_table_is_no_other_tables(self, catalog, table, root):
        publish(catalog, ORDERS, table)
        newer = dataclasses.replace(table, version=4, properties={"team": "finance"})
        assert publish(Slower(catalog), ORDERS, newer).version == 4
        assert publish(Slower(catalog), ORDERS, table).version == 4
        with pytest.raises(TableNameTakenError) as refused:
            publish(Slower(catalog), ORDERS, dataclasses.replace(table, location=f"{root}/elsewhere"))
        assert refused.value.location == table.location

    def test_two_that_create_one_name_end_with_one_table(self, catalog, table):
        catalog.create(ORDERS, table)
        with pytest.raises(TableNameTakenError):
            catalog.create(ORDERS, table)
        assert differences(resolve(catalog, ORDERS), table) == ()
