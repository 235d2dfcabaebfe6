"""Random walks: our core and deltalake change a table alternately, and after every step all engines see the model's rows.

A failing walk reports its seed and steps; ``walk`` with the same seed repeats it.
"""

import random

import pytest

from tests.core.models.walked_table import WalkedTable

QUICK, ALL = 3, 320


def walk(directory, duckdb, seed, steps):
    duckdb.sql("SET TimeZone = 'UTC'")
    rng = random.Random(seed)
    taken = ["create"]
    try:
        table = WalkedTable(directory / "t", rng, duckdb)
        table.check()
        for _ in range(steps):
            taken.append(rng.choice(WalkedTable.steps()))
            table.walk(taken[-1])
            table.check()
    except Exception as error:
        raise AssertionError(f"seed {seed}, {' > '.join(taken)}: {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("seed", range(QUICK))
def test_every_engine_sees_equal_rows_after_every_step(tmp_path, duckdb_connection, seed):
    walk(tmp_path, duckdb_connection, seed, steps=8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(QUICK, ALL))
def test_every_engine_sees_equal_rows_after_every_step_of_many_walks(tmp_path, duckdb_connection, seed):
    walk(tmp_path, duckdb_connection, seed, steps=16)
