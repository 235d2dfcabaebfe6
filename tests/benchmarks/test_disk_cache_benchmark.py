"""The benchmark itself: it counts requests to the store, and the next process finds the same files with two of them."""

import re

import pytest

from benchmarks.disk_cache import main


@pytest.mark.slow
def test_a_small_run_opens_the_table_three_times_and_the_last_time_with_two_requests(capsys):
    main(["--files", "2000", "--wait", "0.001", "--rounds", "1"])
    printed = capsys.readouterr().out
    assert "DIFFER" not in printed
    requests = [int(count) for count in re.findall(r"(\d+) requests", printed)]
    assert requests[0] > requests[1] > 2  # the end of the checkpoint file is read more than once
    assert requests[2] == 2
