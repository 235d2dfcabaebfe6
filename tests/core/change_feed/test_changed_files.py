from airflow_delta.core.change_feed.changed_files import changed_files
from airflow_delta.core.log.commit_reader import read_commit
from tests.core.builders import HandmadeLog, add, deletion_vector, remove


def changes(*actions):
    log = HandmadeLog().create().commit(*actions)
    rows = changed_files(read_commit(log.store, 1)).to_pylist()
    return [
        (row["path"], row["change_type"], *(row[key] and row[key]["path_or_inline_dv"] for key in ("shown_by", "hidden_by")))
        for row in rows
    ]


def test_an_added_file_was_inserted_and_a_removed_one_deleted_each_without_its_deleted_rows():
    found = changes(
        add("new"), add("new-with", deletionVector=deletion_vector("a")), remove("old", deletionVector=deletion_vector("b"))
    )
    assert found == [
        ("old", "delete", None, "b"),
        ("new", "insert", None, None),
        ("new-with", "insert", None, "a"),
    ]


def test_a_file_that_got_a_deletion_vector_lost_the_rows_in_it():
    assert changes(remove("f"), add("f", deletionVector=deletion_vector("v"))) == [("f", "delete", "v", None)]


def test_a_file_whose_deletion_vector_changed_lost_the_rows_that_only_the_new_one_has_and_got_back_the_others():
    found = changes(remove("f", deletionVector=deletion_vector("old")), add("f", deletionVector=deletion_vector("new")))
    assert found == [("f", "delete", "new", "old"), ("f", "insert", "old", "new")]


def test_a_file_that_lost_its_deletion_vector_got_back_its_rows():
    assert changes(remove("f", deletionVector=deletion_vector("v")), add("f")) == [("f", "insert", "v", None)]


def test_one_path_spelled_in_two_ways_is_one_file():
    assert changes(remove("file:///t/f"), add("/t/f")) == []


def test_rearranged_files_are_no_change():
    assert changes(add("f", dataChange=False), remove("g", dataChange=False)) == []


def test_change_data_files_say_it_all():
    cdc = {"cdc": {"path": "_change_data/c", "partitionValues": {"p": "1"}, "size": 1, "dataChange": False}}
    assert changes(add("f"), remove("g"), cdc) == [("_change_data/c", None, None, None)]


def merge(**metrics):
    return {"commitInfo": {"timestamp": 1, "operation": "MERGE", "operationMetrics": metrics}}


def test_a_merge_that_only_copied_rows_changed_nothing():
    copied = {f"numTargetRows{kind}": "0" for kind in ("Inserted", "Updated", "Deleted")}
    assert changes(merge(**copied), add("f"), remove("g")) == []


def test_a_merge_that_inserted_rows_or_does_not_tell_changed_them():
    assert changes(merge(numTargetRowsInserted="1"), add("f")) == [("f", "insert", None, None)]
    assert changes(merge(), add("f")) == [("f", "insert", None, None)]
