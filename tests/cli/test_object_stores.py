"""The command line on a table in S3."""

import json

import pytest
from typer.testing import CliRunner

from airflow_delta.cli.main import app, main
from airflow_delta.core.actions import Metadata
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.transaction.operation import Operation
from tests.core.object_stores import moto_server, s3  # noqa: F401 - fixtures


def test_storage_options_are_texts_truths_and_json_objects(s3):  # noqa: F811 - the fixture
    uri = f"{s3.uri}/table"
    schema = '{"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": true, "metadata": {}}]}'
    log = DeltaLog.for_table(uri, s3.options)
    log.create_transaction(Metadata(id="m", schema_string=schema)).commit(operation=Operation(name="CREATE TABLE"))
    client = json.dumps(
        {"endpoint_url": s3.options["endpoint_url"], "aws_access_key_id": "test", "aws_secret_access_key": "test"}
    )
    options = ["-o", f"client_kwargs={client}", "-o", "anon=false"]
    result = CliRunner().invoke(app, ["history", uri, "--json", *options])
    assert [entry["version"] for entry in map(json.loads, result.output.splitlines())] == [0]


def test_a_refusal_of_the_storage_is_reported_in_its_own_words(s3, capsys):  # noqa: F811 - the fixture
    options = [argument for name, value in s3.options.items() for argument in ("-o", f"{name}={value}")]
    with pytest.raises(SystemExit):
        main(["history", "s3://no-such-bucket-here/table", "--json", *options])
    assert json.loads(capsys.readouterr().err)["code"] == "DELTA_STORAGE_ACCESS"
