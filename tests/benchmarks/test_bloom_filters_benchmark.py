import pytest

from benchmarks.bloom_filters import Size, run


@pytest.mark.slow
def test_a_small_run_finds_the_rows_that_duckdb_computes_and_skips_files(spark, tmp_path, capsys):
    size = Size(rows=6_000, files=6, rounds=1, keys=30, fpp=None, items="1000")
    assert run(spark, tmp_path, size, warm_up_rounds=0) == 0
    printed = capsys.readouterr().out
    assert "price: " in printed
    assert "100 absent keys at once: 100.0% of 6 files skipped" in printed
    assert "'numTargetRowsUpdated': 30," in printed
    assert "ratio of the medians" in printed
