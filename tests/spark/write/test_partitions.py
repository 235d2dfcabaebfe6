"""The partitions of files, as values and as a predicate: decided on what the log says alone."""

import itertools

import pyarrow as pa
import pytest

from airflow_delta.core.predicate import ALL, NO, evaluate_files
from airflow_delta.core.schema import StructField, StructType
from airflow_delta.core.schema.data_types import DOUBLE, FLOAT, INTEGER, STRING, TIMESTAMP, DecimalType
from airflow_delta.spark.write.partitions import in_partitions_of, partitions_predicate


def files(*partitions):
    """Files in these partitions; values as texts of the log."""
    maps = pa.array([list(partition.items()) for partition in partitions], pa.map_(pa.string(), pa.string()))
    names = [str(position) for position in range(len(partitions))]
    return pa.table({"path": names, "partition_values": maps, "stats": pa.nulls(len(names), pa.string())})


def verdicts(columns, new, candidates):
    predicate = partitions_predicate(new, columns)
    return evaluate_files(predicate, candidates, StructType(columns), [column.name for column in columns]).to_pylist()


@pytest.mark.parametrize(
    ("kind", "spellings", "other"),
    [
        (STRING, ["a", "a"], "A"),
        (STRING, [None, ""], "a"),
        (INTEGER, ["7", "07"], "70"),
        (DOUBLE, ["1.5", "1.50"], "1.25"),
        (DOUBLE, ["NaN", "NaN"], "1.0"),
        (DOUBLE, ["0.0", "-0.0"], "1.0"),
        (FLOAT, ["-0.0", "0.0"], None),
        (DecimalType(5, 2), ["1.50", "1.5"], "1.05"),
        (TIMESTAMP, ["2013-01-01 05:00:00", "2013-01-01T05:00:00.000000Z"], "2013-01-01 05:00:01"),
    ],
)
def test_a_partition_is_found_by_its_value_not_by_its_text(kind, spellings, other):
    columns = (StructField("p", kind),)
    new, candidates = files({"p": spellings[0]}), files({"p": spellings[1]}, {"p": other})

    assert in_partitions_of(candidates, new, columns)["path"].to_pylist() == ["0"]
    assert verdicts(columns, new, candidates) == [ALL, NO]


def test_of_few_partitions_the_predicate_names_each_and_of_many_the_values_of_each_column():
    columns = (StructField("p", INTEGER), StructField("q", STRING))
    everywhere = files(*({"p": str(p), "q": q} for p, q in itertools.product(range(120), ["a", None])))
    some = files({"p": "1", "q": "a"}, {"p": "2", "q": None}, {"p": "1", "q": "a"})
    many = files(*({"p": str(p), "q": "a" if p % 2 else None} for p in range(110)))

    assert verdicts(columns, some, everywhere).count(ALL) == len(in_partitions_of(everywhere, some, columns)) == 2
    found = verdicts(columns, many, everywhere)
    assert found.count(ALL) == 2 * 110
    assert found[-20:] == [NO] * 20
    exact = in_partitions_of(everywhere, many, columns)["path"].to_pylist()
    assert len(exact) == 110
    assert all(found[int(position)] == ALL for position in exact)


def test_no_rows_come_into_no_partition():
    columns = (StructField("p", INTEGER), StructField("q", STRING))
    candidates = files({"p": "1", "q": "a"})

    assert verdicts(columns, files(), candidates) == [NO]
    assert len(in_partitions_of(candidates, files(), columns)) == 0
