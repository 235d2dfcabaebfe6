"""What only some versions of Spark can do."""

from importlib.util import find_spec

import pytest

needs_stream_source = pytest.mark.skipif(
    find_spec("pyspark.sql.streaming.datasource") is None, reason="reading a table as a stream needs Spark 4.2"
)
