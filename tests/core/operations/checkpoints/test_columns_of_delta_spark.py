"""The columns of our checkpoints beside those that Delta Spark 4.4.0 wrote of the same versions."""

import shutil

import pyarrow.parquet as pq
import pytest

from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.operations.checkpoints import CheckpointKind
from tests.golden_tables import TABLES

SIDECARS = "_delta_log/_sidecars/*.parquet"

NOT_IN_THE_PROTOCOL = ("maxRowIndex", "amtPassthrough", "backReference", "sidecarType")
"""Additional columns of Delta Spark, which its readers do not require (its own sidecars have only the first)."""
ONLY_WHERE_ASKED_FOR = ("stats_parsed", "partitionValues_parsed")


def leaves(path):
    """Definition and repetition level of each leaf, which distinguish optional from required."""
    schema = pq.ParquetFile(path).schema
    columns = (schema.column(index) for index in range(len(schema)))
    return {column.path: (column.max_definition_level, column.max_repetition_level) for column in columns}


def top_level(path):
    return pq.ParquetFile(path).schema_arrow.names


def files(root, version, pattern):
    found = sorted(root.glob(pattern.format(version=f"{version:020d}")))
    assert found
    return found


@pytest.mark.parametrize(
    ("name", "version", "kind", "pattern"),
    [
        ("checkpoint_struct_stats", 1, CheckpointKind.CLASSIC, "_delta_log/{version}.checkpoint.parquet"),
        ("dv_basic", 5, CheckpointKind.CLASSIC, "_delta_log/{version}.checkpoint.parquet"),
        ("type_widening", 16, CheckpointKind.CLASSIC, "_delta_log/{version}.checkpoint.parquet"),
        ("multipart_checkpoint", 1, CheckpointKind.MULTI_PART, "_delta_log/{version}.checkpoint.*.parquet"),
        ("v2_checkpoint_parquet", 4, CheckpointKind.V2_PARQUET, "_delta_log/{version}.checkpoint.*.parquet"),
        ("v2_checkpoint_parquet", 4, CheckpointKind.V2_PARQUET, SIDECARS),
        ("v2_checkpoint_parquet", 5, CheckpointKind.V2_JSON, SIDECARS),
    ],
)
def test_a_checkpoint_has_every_column_that_delta_spark_gives_it(tmp_path, name, version, kind, pattern):
    theirs = TABLES / name / "table"
    root = shutil.copytree(theirs, tmp_path / "table", ignore=shutil.ignore_patterns("*checkpoint*", "_sidecars"))
    DeltaLog.for_table(str(root)).checkpoint(version, kind=kind)
    for ours in files(root, version, pattern):
        for example in files(theirs, version, pattern):
            assert top_level(ours) == top_level(example)
            missing = leaves(example).items() - leaves(ours).items()
            left_out = (*NOT_IN_THE_PROTOCOL, *(ONLY_WHERE_ASKED_FOR if name != "checkpoint_struct_stats" else ()))
            assert {path for path, _ in missing if not set(path.split(".")) & set(left_out)} == set()


@pytest.mark.parametrize("kind", [CheckpointKind.V2_PARQUET, CheckpointKind.V2_JSON])
def test_a_table_without_files_has_a_checkpoint_with_every_column(tmp_path, kind):
    log = DeltaLog.for_table(str(tmp_path))
    (tmp_path / "_delta_log").mkdir()
    shutil.copy(TABLES / "v2_checkpoint_parquet" / "table" / "_delta_log" / f"{0:020d}.json", tmp_path / "_delta_log")
    manifest = tmp_path / log.checkpoint(0, kind=kind).path
    again = DeltaLog.for_table(str(tmp_path)).snapshot(0)
    assert again.segment.checkpoint.version == 0
    assert len(again.files()) == 0
    if kind is CheckpointKind.V2_PARQUET:
        assert {"add", "remove", "sidecar", "checkpointMetadata"} <= set(top_level(manifest))
