"""Markers for tests that need certain Spark versions, or a classic session."""

from importlib.util import find_spec

import pyspark
import pytest

needs_stream_source = pytest.mark.skipif(
    find_spec("pyspark.sql.streaming.datasource") is None, reason="reading a table as a stream needs Spark 4.2"
)

needs_doubled_quotes = pytest.mark.skipif(
    pyspark.__version__.startswith("4.0."), reason="Spark 4.0 reads 'it''s' as two texts, one behind the other"
)

sees_plans = pytest.mark.classic(reason="over Spark Connect the plan of a query is not seen, so its tables are read whole")

needs_files_of_spark = (
    pytest.mark.classic(reason="over Spark Connect Python workers write the files of tables before Spark 4.2")
    if pyspark.__version__.startswith(("4.0.", "4.1."))
    else lambda test: test
)

looks_into_the_jvm = pytest.mark.classic(reason="the test looks into the JVM, which is out of reach over Spark Connect")

refused_over_connect = pytest.mark.classic(reason="over Spark Connect, statements refuse rows of format('delta')")
