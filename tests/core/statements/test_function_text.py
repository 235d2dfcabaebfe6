"""Functions as text: what travels to the driver, and what is refused because it would not be there."""

# ruff: noqa: F821, PLC0415 - functions as in DAG files: imports within, and names that are not there

import functools
import json
import re
import runpy
import traceback
from pathlib import Path

import pytest

from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.core.statements import FileSource, PythonSource, TableSource, WriteStatement
from airflow_delta.core.statements.function_text import FunctionText
from airflow_delta.core.statements.json_form import map_texts, statement_from_json, to_json
from airflow_delta.jobs.spec import statement_digest

OUTSIDE = 7
HERE = Path(__file__)


def plain(spark, table: "NotThere", day="2013-01-01", *, factor: int = 2) -> "NotThere":
    """Has all that a function may bring: a helper, a class, an import, a comprehension, a text with braces."""
    import math

    class Bird:
        legs = 2
        pairs = legs // 2

    def helper(number):
        return number * factor + math.floor(1.5) + Bird.pairs

    return [f"{{{helper(n)}}} of {day} at {table}" for n in range(2)], len(__name__)


def typed(spark):
    """Has a class whose members have types."""
    from dataclasses import dataclass

    @dataclass
    class Bird:
        name: str
        legs: int = 2

    return Bird("robin")


async def stream(spark):
    yield 1


def generator(spark):
    yield 1


def raising(spark):
    text = """
{% line %} one
  indentation two"""
    raise ValueError(text)


def loaded(function):
    text = FunctionText.of(function)
    names = {"__name__": "loaded"}
    exec(text.compiled(), names)
    return names[text.name]


def line_of(text):
    """The number of this file's only line that ends in the text."""
    [number] = [number for number, line in enumerate(HERE.read_text().splitlines(), 1) if line.endswith(text)]
    return number


def test_a_function_is_what_it_was_without_the_names_of_its_file():
    assert loaded(plain)(None, "t") == (["{2} of 2013-01-01 at t", "{4} of 2013-01-01 at t"], 6)
    assert FunctionText.of(plain).text.startswith("def plain(")


def test_classes_whose_members_have_types_travel():
    bird = loaded(typed)(None)
    assert (bird.name, bird.legs) == ("robin", 2)


def test_signs_that_end_a_line_of_a_text_but_not_of_a_file_travel(tmp_path):
    file = tmp_path / "signs.py"
    file.write_text("def signs(spark):\n    return 'a\u2028b\x85c\x0cd', 'end'\n", encoding="utf-8")
    assert loaded(runpy.run_path(str(file))["signs"])(None) == ("a\u2028b\x85c\x0cd", "end")


def nested(lines):
    def inner(spark):
        text = """
no indentation here"""
        raise ValueError(text + "".join(lines for lines in "ab"))  # the error of the inner one

    return inner


@pytest.mark.parametrize(
    ("function", "text", "line"),
    [
        (raising, "\n{% line %} one\n  indentation two", "    raise ValueError(text)"),
        (nested("x"), "\nno indentation hereab", "# the error of the inner one"),
    ],
    ids=["at the module's level", "within a function"],
)
def test_an_error_names_the_line_of_the_file_and_texts_keep_their_indentation(function, text, line):
    with pytest.raises(ValueError, match="indentation") as caught:
        loaded(function)(None)
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (str(caught.value), frame.filename, frame.lineno) == (text, str(HERE), line_of(line))


def wraps(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapped


def replaces(function):
    def replacement(spark):
        return function(spark)

    return replacement


@wraps
def decorated(spark):
    return None


@replaces
def replaced(spark):
    return None


def uses_a_global(spark):
    return [OUTSIDE for _ in range(2)]


def uses_a_module_in_a_helper(spark):
    def helper():
        return json.dumps({})

    return helper()


def has_a_default_from_outside(spark, number=OUTSIDE):
    return number


def closure():
    number = 3

    def uses_a_closure(spark):
        return number

    return uses_a_closure


class Class:
    def method(self, spark):
        return None


async def coroutine(spark):
    return None


def name_of(value):
    """A test's name must be the same in every process: without addresses."""
    return re.sub(r" at 0x\w+", "", str(value))


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (uses_a_global, "uses OUTSIDE from outside"),
        (uses_a_module_in_a_helper, "uses json from outside"),
        (has_a_default_from_outside, "uses OUTSIDE from outside"),
        (closure(), "uses number from outside"),
        (replaced, "uses function from outside"),
        (decorated, "none that a decorator wraps"),
        (lambda spark: spark, "no lambda"),
        (Class().method, "no lambda, method"),
        (coroutine, "no lambda, method, coroutine"),
        (generator, "coroutine, generator"),
        (stream, "coroutine, generator"),
        (functools.partial(plain, None), "expected a function of its own def"),
        (len, "expected a function of its own def"),
    ],
    ids=name_of,
)
def test_what_would_not_be_there_is_refused_by_name(function, named):
    with pytest.raises(InvalidStatementError, match=named):
        FunctionText.of(function)


def test_a_refusal_names_the_line_of_the_function():
    with pytest.raises(InvalidStatementError, match=rf"{HERE.name}:{line_of('def uses_a_global(spark):')} it uses"):
        FunctionText.of(uses_a_global)


def test_a_function_whose_file_is_gone_is_refused_with_the_other_way():
    names = {}
    exec("def written_nowhere(spark): return None", names)
    with pytest.raises(InvalidStatementError, match="name it as 'module:function'"):
        FunctionText.of(names["written_nowhere"])


def no_session(table):
    return table


def session_last(table, spark):
    return table


def by_place(spark, table, /):
    return table


def any_number(spark, *tables):
    return tables


@pytest.mark.parametrize(
    ("function", "arguments", "text"),
    [
        (plain, {}, "missing a required argument: 'table'"),
        (plain, {"table": 1, "days": 2}, "unexpected keyword argument 'days'"),
        (
            plain,
            {"table": object()},
            "argument table must be a TableSource, a FileSource or a value that JSON has, found object",
        ),
        (plain, {"table": [TableSource("/t")]}, "a table is an argument of its own"),
        (plain, {"table": {1: 2}}, "the argument table must be"),
        (no_session, {}, "expected spark, the Spark session, as its first parameter, found table"),
        (session_last, {"table": 1}, "as its first parameter, found table"),
        (by_place, {"table": 1}, "passed by name, which table cannot be"),
        (any_number, {"tables": 1}, "passed by name, which tables cannot be"),
        ("team.jobs", {}, "as 'module:function', found 'team.jobs'"),
        ("team.jobs:", {}, "as 'module:function', found"),
        ("team:jobs", {"spark": 1}, "spark is the session"),
    ],
    ids=name_of,
)
def test_a_call_that_must_fail_is_refused(function, arguments, text):
    with pytest.raises(InvalidStatementError, match=text):
        PythonSource.of(function, **arguments)


def written(source):
    return WriteStatement(table="/t", source=source)


def test_a_function_and_its_arguments_survive_json_and_templates():
    day = "{{ ds }}"
    source = PythonSource.of(plain, table=TableSource("/a", version="{{ v }}"), day=day, factor=[1, {"b": [True, None]}])
    values = {"{{ v }}": "3", day: "2013-01-02"}
    rendered = map_texts(written(source), lambda text: values.get(text, text))
    copy = statement_from_json(json.loads(json.dumps(to_json(rendered))))
    assert copy == rendered
    assert (copy.source.code, copy.source.file, copy.source.line) == (source.code, str(HERE), line_of('-> "NotThere":'))
    assert copy.source.arguments == {
        "table": TableSource("/a", version=3),
        "day": "2013-01-02",
        "factor": (1, {"b": (True, None)}),
    }


def test_braces_in_code_are_no_template():
    source = PythonSource.of(raising)
    assert map_texts(source, lambda text: "rendered" if "{%" in text else text).code == source.code


def test_where_the_text_stands_is_no_difference_and_what_it_says_is_one():
    source = PythonSource.of(raising)
    moved = PythonSource(source.function, code=source.code, file="/other/bundle.py", line=99)
    changed = PythonSource(source.function, code=source.code + "    pass\n", file=source.file, line=source.line)
    assert moved == source
    assert statement_digest(written(moved)) == statement_digest(written(source)) != statement_digest(written(changed))


def test_files_and_tables_are_arguments_and_the_function_may_be_one_of_a_module():
    feed = FileSource("/in/*.csv", format="csv")
    assert PythonSource.of("team.jobs:Daily.rows", feed=feed) == PythonSource("team.jobs:Daily.rows", arguments={"feed": feed})
