import pytest

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.schema import parse_schema
from airflow_delta.core.table_features.partition_columns import materialized_columns
from tests.core.builders import schema_string

SCHEMA = schema_string(day="date", id="long", nothing="void")
PROPERTY = "delta.writePartitionColumnsToParquet"


@pytest.mark.parametrize(
    ("feature", "configuration", "names"),
    [
        ("appendOnly", {}, ()),
        ("appendOnly", {PROPERTY: "TRUE"}, ("day",)),
        ("materializePartitionColumns", {}, ("day",)),
        ("materializePartitionColumns", {PROPERTY: "false"}, ("day",)),
        ("icebergCompatV2", {}, ()),
        ("icebergCompatV2", {"delta.enableIcebergCompatV2": "true"}, ("day",)),
    ],
)
def test_a_feature_requires_and_a_property_requests_partition_columns_in_files(feature, configuration, names):
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=frozenset({feature}))
    metadata = Metadata(id="x", schema_string=SCHEMA, partition_columns=("day", "nothing"), configuration=configuration)
    assert materialized_columns(parse_schema(SCHEMA), protocol, metadata).names == names
