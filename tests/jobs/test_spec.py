"""A spec goes from operator to job unchanged, or is refused."""

import json
from dataclasses import replace

import pytest

from airflow_delta.core.actions.commit_info import Origin
from airflow_delta.core.errors import InvalidStatementError, RelativePathError
from airflow_delta.core.statements import CheckpointStatement, MergeStatement, TableSource
from airflow_delta.core.statements.json_form import to_json
from airflow_delta.jobs.errors import InvalidSpecError
from airflow_delta.jobs.main import main
from airflow_delta.jobs.spec import JobSpec, statement_digest

STATEMENT = MergeStatement(table="/lake/flights", source=TableSource("/lake/feed", version=3), on="target.id = source.id")


def test_a_spec_survives_its_text():
    spec = JobSpec(
        statement=STATEMENT,
        origin=Origin(token="a1", job={"jobName": "d.t"}, record={"try_number": 2}),
        start_version=7,
        result_uri="/lake/flights/_airflow_delta/results/a1/2.json",
        allowed_prefixes=("/lake/shared",),
    )
    assert JobSpec.from_text(spec.to_text()) == spec
    unseen = replace(spec, start_version=None, earliest_commit_time=1_767_225_600_000)
    assert JobSpec.from_text(unseen.to_text()) == unseen


def test_by_hand_only_the_statement_is_needed():
    text = """{"statement": {"$type": "merge", "table": "/lake/flights", "on": "target.id = source.id",
               "source": {"$type": "table", "table": "/lake/feed", "version": 3}}}"""
    assert JobSpec.from_text(text) == JobSpec(statement=STATEMENT)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda spec: spec | {"format": 2}, InvalidSpecError),
        (lambda spec: spec | {"shell": "true"}, InvalidSpecError),
        (lambda spec: spec | {"origin": {"user": "root"}}, InvalidSpecError),
        (lambda spec: spec | {"start_version": "3"}, InvalidSpecError),
        (lambda spec: spec | {"start_version": True}, InvalidSpecError),
        (lambda spec: spec | {"not_before": "now"}, InvalidSpecError),
        (lambda spec: spec | {"result_uri": "/lake/results/"}, InvalidSpecError),
        (lambda spec: spec | {"result_uri": "results/1.json"}, RelativePathError),
        (lambda spec: {"statement": spec["statement"] | {"table": "flights"}}, RelativePathError),
        (lambda spec: {"statement": spec["statement"] | {"source": {"$type": "table", "table": "./feed"}}}, RelativePathError),
        (lambda spec: {"statement": spec["statement"] | {"dry_run": "maybe"}}, InvalidStatementError),
        (lambda spec: spec | {"allowed_prefixes": "/"}, InvalidStatementError),
        (lambda spec: spec | {"digest": "0" * 64}, InvalidSpecError),
        (lambda spec: spec | {"statement": spec["statement"] | {"table": "/lake/other"}}, InvalidSpecError),
        (lambda spec: {key: value for key, value in spec.items() if key != "statement"}, InvalidSpecError),
        (lambda spec: {"statement": spec["statement"] | {"$type": "subprocess.run"}}, InvalidStatementError),
    ],
)
def test_a_spec_that_was_changed_or_is_not_known_is_refused(change, error):
    spec = json.loads(JobSpec(statement=STATEMENT).to_text())
    with pytest.raises(error):
        JobSpec.from_text(json.dumps(change(spec)))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"merge"', "[" * 100_000])
def test_what_is_no_json_object_is_refused(text):
    with pytest.raises(InvalidSpecError):
        JobSpec.from_text(text)


def test_a_statement_of_parts_within_parts_without_end_is_refused():
    with pytest.raises(InvalidStatementError, match="nested too deeply"):
        JobSpec.from_text('{"statement": ' + "[" * 900 + "]" * 900 + "}")


@pytest.mark.parametrize("content", [b'{"statement": "\xe9"}', None])
def test_a_file_that_is_no_text_or_not_there_is_an_error_of_the_spec(tmp_path, capsys, content):
    file = tmp_path / "merge.json"
    if content is not None:
        file.write_bytes(content)
    assert main("merge", ["--spec", f"@{file}"]) == 64
    assert f"[DELTA_INVALID_SPEC] invalid job spec: '{file}' cannot be read: " in capsys.readouterr().err


def test_a_field_that_a_later_version_adds_changes_no_digest_as_long_as_it_says_nothing():
    document = to_json(CheckpointStatement(table="/t"), with_defaults=False)
    assert document == {"$type": "checkpoint", "table": "/t"}
    nested = to_json(MergeStatement(table="/t", source=TableSource("/s"), on="a = b"), with_defaults=False)
    assert nested["source"] == {"$type": "table", "table": "/s"}
    assert statement_digest(CheckpointStatement(table="/t", version=0)) != statement_digest(CheckpointStatement(table="/t"))


def test_digests_differ_exactly_where_statements_do():
    same = MergeStatement(table="/lake/flights", source=TableSource("/lake/feed", version="3"), on="target.id = source.id")
    other = MergeStatement(table="/lake/flights", source=TableSource("/lake/feed", version=4), on="target.id = source.id")
    assert statement_digest(same) == statement_digest(STATEMENT)
    assert statement_digest(other) != statement_digest(STATEMENT)
