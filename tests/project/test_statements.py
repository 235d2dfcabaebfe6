"""Every statement is complete: what is missing for one of them is named."""

from typing import get_args

import pytest

from airflow_delta import operators
from airflow_delta.core.statements import Statement
from airflow_delta.core.statements.json_form import TYPES
from airflow_delta.get_provider_info import get_provider_info
from airflow_delta.jobs import core_statements, spark_statements
from airflow_delta.shipping.scripts import job_script, job_scripts
from tests.project.conftest import ROOT

STATEMENTS = get_args(Statement)
OPERATORS = [value for value in vars(operators).values() if hasattr(value, "statement_type")]
MODULES = {module for listed in get_provider_info()["operators"] for module in listed["python-modules"]}
TABLE = [line for line in (ROOT / "docs" / "operators.md").read_text().splitlines() if line.startswith("| `Delta")]


def missing(statement, operators=OPERATORS):
    name, script = statement.type_name, job_script(statement.type_name)
    found = [operator for operator in operators if operator.statement_type is statement]
    if TYPES.get(name) is not statement:
        yield "its member of Statement in core/statements/__init__.py"
    if (statement in core_statements.RUNNERS) + (statement in spark_statements.RUNNERS) != 1:
        yield "one runner, in jobs/core_statements.py or in jobs/spark_statements.py"
    if not script.exists() or f'main("{name}")' not in script.read_text():
        yield f'spark_jobs/{script.name}, which calls main("{name}")'
    if not found:
        yield f"an operator in operators/__init__.py with statement_type = {statement.__name__}"
    for operator in found:
        if operator.__module__ not in MODULES:
            yield f"{operator.__module__} in get_provider_info.py"
        if not any(f"`{operator.__name__}`" in row for row in TABLE):
            yield f"a row for {operator.__name__} in docs/operators.md"


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda statement: statement.type_name)
def test_a_statement_has_its_runner_script_operator_and_docs(statement):
    assert list(missing(statement)) == []


def test_of_a_new_statement_everything_is_missing():
    class AnalyzeStatement:
        type_name = "analyze"

    class DeltaAnalyzeOperator:
        statement_type = AnalyzeStatement

    assert list(missing(AnalyzeStatement)) == [
        "its member of Statement in core/statements/__init__.py",
        "one runner, in jobs/core_statements.py or in jobs/spark_statements.py",
        'spark_jobs/delta_analyze.py, which calls main("analyze")',
        "an operator in operators/__init__.py with statement_type = AnalyzeStatement",
    ]
    assert list(missing(AnalyzeStatement, [DeltaAnalyzeOperator]))[3:] == [
        f"{__name__} in get_provider_info.py",
        "a row for DeltaAnalyzeOperator in docs/operators.md",
    ]


def test_no_script_and_no_runner_is_of_a_statement_that_is_none():
    scripts = {script.stem.removeprefix("delta_") for script in job_scripts()} - {"doctor"}  # it is about no table
    assert scripts == {kind.type_name for kind in STATEMENTS}
    assert {*core_statements.RUNNERS, *spark_statements.RUNNERS} == {*STATEMENTS}
