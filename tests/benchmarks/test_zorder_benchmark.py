"""The benchmark itself: it meets its targets on a small table, and its checks detect wrong results."""

import pytest
from deltalake import DeltaTable

from benchmarks.zorder import differing_rows, main, make_table, skipped


@pytest.mark.slow
def test_a_small_run_reaches_the_targets(spark, capsys):
    assert main(["--rows", "32000", "--files", "100", "--queries", "20", "--data", "uniform"], spark) == 0
    printed = capsys.readouterr().out
    assert ("rows that differ: 0" in printed, "deltalake: average" in printed) == (True, True)


def test_rows_in_no_order_let_nothing_be_skipped_and_lost_rows_are_seen(tmp_path):
    for name in ("one", "other"):
        make_table(tmp_path / name, "zipf", 3_200)
    assert (skipped(tmp_path / "one", 5).is_met, differing_rows(tmp_path / "one", tmp_path / "other")) == (False, 0)
    DeltaTable(tmp_path / "other").delete("sourcePort < 30000")
    assert differing_rows(tmp_path / "one", tmp_path / "other") > 0
