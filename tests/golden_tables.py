"""Tables written by Delta Lake 4.4.0 on Spark 4.2.0, with what that engine reads from each version (``expected.json``)."""

from pathlib import Path

TABLES = Path(__file__).parent / "golden"
