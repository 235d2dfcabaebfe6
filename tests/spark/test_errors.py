"""What errors show of Spark's own."""

import pytest
from pyspark.errors import AnalysisException, ParseException

from airflow_delta.spark.errors import first_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            ParseException("\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'.(line 1, pos 2)\n\n== SQL ==\nx"),
            "[PARSE_SYNTAX_ERROR]",
        ),
        (AnalysisException("[UNRESOLVED_COLUMN] `x` cannot be resolved.\n'Project"), "[UNRESOLVED_COLUMN]"),
    ],
)
def test_the_first_line_with_words_is_shown(error, line):
    assert first_line(error).startswith(line)
    assert "\n" not in first_line(error)


def test_an_error_without_words_is_shown_by_its_name():
    assert first_line(AnalysisException("\n ")) == "AnalysisException"
