import subprocess
import sys

import pytest

READ = """
import random, struct, sys
from pathlib import Path
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.errors import CorruptLogError

table, whole, found = sys.argv[1], Path(sys.argv[2]).read_bytes(), []
(length,) = struct.unpack("<i", whole[-8:-4])
for seed in range(int(sys.argv[3])):
    chance, damaged = random.Random(seed), bytearray(whole)
    for _ in range(chance.randint(1, 3)):
        damaged[chance.randrange(len(whole) - 8 - length, len(whole) - 8)] = chance.randrange(256)
    Path(sys.argv[2]).write_bytes(damaged)
    try:
        DeltaLog.for_table(table).snapshot().files(columns=("path", "num_records", "tags", "deletion_vector"))
        found.append("read")
    except CorruptLogError:
        found.append("corrupt")
print(found.count("read"), found.count("corrupt"))
"""


@pytest.mark.slow
def test_a_damaged_footer_is_a_corrupt_log_and_not_the_end_of_the_process(real_table):
    table = real_table()
    for number in range(3):
        table.commit(adds=table.add(f"f{number}", number))
    path = table.root / table.log.checkpoint().path
    for commit in (table.root / "_delta_log").glob("*.json"):
        commit.unlink()
    ended = subprocess.run([sys.executable, "-c", READ, table.root, path, "400"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    read, corrupt = map(int, ended.stdout.split())
    assert read + corrupt == 400
    assert corrupt > 50
