"""The benchmark itself: it measures what it claims, and its row check finds wrong rows."""

import pytest
from deltalake import DeltaTable

from benchmarks.merge import Size, differing_rows, run


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["clustered", "uuid"])
def test_a_small_run_finds_the_rows_that_duckdb_computes(spark, tmp_path, capsys, keys):
    assert run(spark, tmp_path, Size(rows=4000, files=2, rounds=1, keys=keys), warm_up_rounds=0) == 0
    printed = capsys.readouterr().out
    assert "ratio of the medians" in printed
    assert "'numTargetRowsInserted': 20, 'numTargetRowsUpdated': 20," in printed
    DeltaTable(tmp_path / "copy").delete("flight < 100")
    assert differing_rows(tmp_path / "copy", tmp_path / "base", tmp_path / "source") > 0
