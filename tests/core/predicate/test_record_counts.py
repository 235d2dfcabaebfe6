import pyarrow as pa

from airflow_delta.core.predicate.file_statistics import record_counts


def test_the_count_of_rows_is_the_one_at_the_top_and_unknown_where_the_text_does_not_tell():
    texts = [
        '{"minValues":{"numRecords":7},"numRecords":3}',
        None,
        "",
        "{}",
        "{broken",
        '{"numRecords":"a"}',
        '{"numRecords":0}',
    ]
    assert record_counts(pa.chunked_array([texts], pa.string())).to_pylist() == [3, None, None, None, None, None, 0]


def test_no_files_have_no_counts():
    assert record_counts(pa.chunked_array([], pa.string())).to_pylist() == []
