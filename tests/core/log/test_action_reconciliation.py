import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.actions import ADD_FILE, NO_ADDS, NO_REMOVES, REMOVE_FILE
from airflow_delta.core.log.action_reconciliation import file_changes, file_keys
from airflow_delta.core.log.commit_reader import VERSION

PATHS = st.sampled_from(["a", "b", "p=1/c%20d", "file:/x", "/x", "file:///x"])
DELETION_VECTORS = st.sampled_from([None, None, "v", "w"])
KEYS = st.tuples(PATHS, DELETION_VECTORS)
COMMITS = st.lists(st.lists(st.tuples(st.booleans(), KEYS), max_size=4), max_size=8)


def table(schema, rows):
    deletion_vectors = [
        deletion_vector
        and {"storage_type": "u", "path_or_inline_dv": deletion_vector, "offset": 1, "size_in_bytes": 1, "cardinality": 1}
        for _, deletion_vector in (key for _, key in rows)
    ]
    defaults = {"partition_values": {}, "size": 0, "modification_time": 0, "data_change": True}
    columns = {field.name: [defaults.get(field.name)] * len(rows) for field in schema}
    columns |= {"path": [path for _, (path, _) in rows], "deletion_vector": deletion_vectors}
    return pa.table(columns, schema).append_column(VERSION, pa.array([version for version, _ in rows], pa.int64()))


def changes(commits, first=0):
    rows = [(version, add, key) for version, actions in enumerate(commits, first) for add, key in actions]
    return file_changes(
        table(ADD_FILE, [(version, key) for version, add, key in rows if add]),
        table(REMOVE_FILE, [(version, key) for version, add, key in rows if not add]),
    )


def naive(commits):
    """Live keys and tombstones by a simple reconciliation: commit by commit, removes first."""
    live, dead = {}, {}
    for actions in commits:
        for is_add, (path, deletion_vector) in sorted(actions, key=lambda action: action[0]):
            key = ("/x" if path in {"file:/x", "file:///x"} else path, deletion_vector)
            (live if is_add else dead)[key] = None
            (dead if is_add else live).pop(key, None)
    return sorted(live, key=str), sorted(dead, key=str)


def keys(files):
    deletion_vectors = [
        deletion_vector and deletion_vector["path_or_inline_dv"] for deletion_vector in files["deletion_vector"].to_pylist()
    ]
    paths = ["/x" if path in {"file:/x", "file:///x"} else path for path in files["path"].to_pylist()]
    return sorted(zip(paths, deletion_vectors, strict=True), key=str)


@given(COMMITS)
def test_replay_in_columns_is_replay_by_the_book(commits):
    outcome = changes(commits)
    live, dead = naive(commits)
    assert keys(outcome.active_files(NO_ADDS)) == live
    assert keys(outcome.tombstones(NO_REMOVES)) == dead
    assert outcome.active_files(NO_ADDS).schema == ADD_FILE
    assert outcome.tombstones(NO_REMOVES).schema == REMOVE_FILE


@given(COMMITS, COMMITS)
def test_replay_of_a_checkpoint_and_the_tail_is_replay_of_all_commits(before, after):
    checkpoint, tail, whole = changes(before), changes(after, len(before)), changes(before + after)
    active = tail.active_files(checkpoint.active_files(NO_ADDS))
    dead = tail.tombstones(checkpoint.tombstones(NO_REMOVES))
    assert keys(active) == keys(whole.active_files(NO_ADDS))
    assert keys(dead) == keys(whole.tombstones(NO_REMOVES))


@given(COMMITS, st.randoms(use_true_random=False))
def test_the_order_inside_a_commit_does_not_matter(commits, random):
    shuffled = [random.sample(actions, len(actions)) for actions in commits]
    assert keys(changes(shuffled).active_files(NO_ADDS)) == keys(changes(commits).active_files(NO_ADDS))
    assert keys(changes(shuffled).tombstones(NO_REMOVES)) == keys(changes(commits).tombstones(NO_REMOVES))


def test_an_add_replaces_the_add_of_the_same_key_and_its_values_count():
    rows = table(ADD_FILE, [(0, ("a", None)), (1, ("a", None))])
    rows = rows.set_column(rows.schema.get_field_index("size"), "size", pa.array([1, 2]))
    removes = NO_REMOVES.append_column(VERSION, pa.array([], pa.int64()))
    assert file_changes(rows, removes).added["size"].to_pylist() == [2]


def test_one_file_with_two_deletion_vectors_is_two_keys():
    assert len(set(file_keys(table(ADD_FILE, [(0, ("a", None)), (0, ("a", "v")), (0, ("a", "w"))])).to_pylist())) == 3
