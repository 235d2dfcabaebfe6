import pyarrow as pa
import pytest

from airflow_delta.core.log.record_counts import live_rows, record_counts


@pytest.mark.parametrize(
    ("statistics", "count"),
    [
        ('{"numRecords":7,"minValues":{}}', 7),
        ('{"numRecords":7}', 7),
        (' { "numRecords" : 7 , "minValues":{}}', 7),
        ('{"minValues":{"numRecords":1},"numRecords":7}', 7),
        ('{"minValues":{"numRecords":1}}', None),
        ('{"numRecords":999999999999}', 999999999999),
        ('{"numRecords":1000000000000}', None),
        ('{"minValues":{},"numRecords":1000000000000}', None),
        ('{"numRecords":9223372036854775808}', None),
        ('{"numRecords":-1}', None),
        ('{"numRecords":1.5}', None),
        ('{"numRecords":"7"}', None),
        ('{"numRecords":null}', None),
        ('{"numRecords":true}', None),
        ("[7]", None),
        ("{", None),
        ("[" * 100_000, None),
        ("", None),
        (None, None),
    ],
)
def test_the_number_of_records_is_reported_or_it_is_not_known(statistics, count):
    assert record_counts(pa.array(['{"numRecords":3}', statistics], pa.string())).to_pylist() == [3, count]


def test_live_rows_are_those_that_no_deletion_vector_hides():
    stats = ['{"numRecords":5}', '{"numRecords":3}', None]
    deletion_vectors = [{"cardinality": 2}, None, None]
    files = pa.table({"stats": pa.array(stats, pa.string()), "deletion_vector": pa.array(deletion_vectors)})

    assert live_rows(files) == 6
    assert live_rows(files.slice(0, 0)) == 0
