"""Which files of a clustered table join a new cube."""

import pyarrow as pa

from airflow_delta.core.actions import ADD_FILE
from airflow_delta.spark.optimize.cubes import cubes_to_make, tagged


def file(path, size=10, cube=None, columns='["a"]', provider="liquid"):
    tags = None if cube is None else [("ZCUBE_ID", cube), ("ZCUBE_ZORDER_BY", columns)]
    return {
        "path": path,
        "partition_values": [],
        "size": size,
        "modification_time": 0,
        "data_change": True,
        "tags": tags,
        "clustering_provider": provider if cube else None,
    }


def taken(*files, **options):
    table = pa.Table.from_pylist(list(files), schema=ADD_FILE)
    inputs, cubes = cubes_to_make(table, ["a"], small_cube=100, large_cube=150, **{"full": False, **options})
    return list(zip(inputs["path"].to_pylist(), cubes.to_pylist(), strict=True))


def test_new_files_join_the_cubes_that_are_still_small():
    files = [file("large1", 60, "L"), file("large2", 60, "L"), file("small", 60, "S"), file("new", 10)]
    assert taken(*files) == [("new", 0), ("small", 0)]


def test_a_single_small_cube_is_in_order_already():
    assert taken(file("a", 30, "S"), file("b", 30, "S")) == []
    assert taken(file("a", 30, "S"), file("b", 30, "T")) == [("a", 0), ("b", 0)]
    assert taken() == []


def test_files_clustered_by_others_or_by_other_columns_are_left_unless_all_are_asked_for():
    files = [file("other", 10, "O", '["b"]'), file("theirs", 10, "X", provider="somebody"), file("new", 10)]
    assert taken(*files) == [("new", 0)]
    assert taken(*files, full=True) == [("new", 0), ("other", 0), ("theirs", 0)]
    assert taken(file("broken", 10, "B", "no json"), file("new")) == [("new", 0)]


def test_many_files_make_several_cubes():
    assert taken(*(file(f"f{number}", 60) for number in range(5))) == [("f0", 0), ("f1", 0), ("f2", 1), ("f3", 1), ("f4", 1)]


def test_members_of_a_cube_share_its_id():
    adds = pa.Table.from_pylist([file(path) for path in "abc"], schema=ADD_FILE)
    rows = tagged(adds, pa.array([0, 0, 1], pa.int32()), ["a", "`b c`.d"]).to_pylist()
    tags = [dict(row["tags"]) for row in rows]
    assert tags[0]["ZCUBE_ID"] == tags[1]["ZCUBE_ID"] != tags[2]["ZCUBE_ID"]
    assert {tags_of_file["ZCUBE_ZORDER_BY"] for tags_of_file in tags} == {'["a","`b c`.d"]'}
    assert {row["clustering_provider"] for row in rows} == {"liquid"}
