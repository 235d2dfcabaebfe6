"""What a COPY INTO may ask for."""

import pytest

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import CopyIntoStatement
from airflow_delta.core.statements.json_form import statement_from_json, to_json

GIVEN = {"table": "t", "path": "/in", "format": "csv"}


@pytest.mark.parametrize(
    ("wrong", "detail"),
    [
        ({"path": " "}, "path"),
        ({"format": ""}, "format"),
        ({"pattern": ""}, "pattern"),
        ({"max_files": 0}, "max_files must be at least 1"),
        ({"max_bytes": "-5"}, "max_bytes must be at least 1"),
        ({"look_back": 0}, "look_back must be at least 1"),
        ({"look_back": 5, "reload": True}, "exclude each other"),
        ({"min_age": -1}, "min_age"),
        ({"partition_by": "a", "cluster_by": "b"}, "exclude each other"),
        ({"format": "parquet", "rescued_column": "_bad"}, "rescued_column goes with"),
        ({"options": {"header": True}}, "options must map texts"),
        ({"options": {"pathGlobFilter": "*.csv"}}, "files that then count as loaded; take pattern"),
        ({"options": {"MODIFIEDBEFORE": "2026-11-23T00:00:00"}}, "files that then count as loaded; take min_age"),
    ],
)
def test_what_means_nothing_is_refused(wrong, detail):
    with pytest.raises(InvalidStatementError, match=detail):
        CopyIntoStatement(**{**GIVEN, **wrong})


def test_texts_of_templates_mean_what_they_say_and_survive_json():
    statement = CopyIntoStatement(**GIVEN, max_files="7", min_age="1.5", reload="true", select="*", expect="a > 0")
    assert (statement.max_files, statement.min_age, statement.reload, statement.select) == (7, 1.5, True, ("*",))
    assert statement_from_json(to_json(statement)) == statement


def test_a_template_waits_for_its_value():
    CopyIntoStatement(**GIVEN, max_files="{{ params.most }}", min_age="{{ params.age }}")
    CopyIntoStatement(table="t", path="/in", format="{{ params.format }}", rescued_column="_bad")
