"""Secrets are gone from a text, the rest stays."""

import json

import pytest

from airflow_delta.jobs.redaction import redact


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("cannot open s3://AKIAKEY:hunter2@bucket/t", "hunter2"),
        ("GET https://a.blob.core.windows.net/c/f?sv=2024&sig=hunter2 failed", "hunter2"),
        ("fs.s3a.secret.key=hunter2", "hunter2"),
        ("{'aws_secret_access_key': 'hunter2', 'region': 'eu'}", "hunter2"),
        ("fs.azure.account.key.acc.dfs.core.windows.net=hunter2==", "hunter2"),
        ("password: hunter2", "hunter2"),
        ("password='a, (hunter2)'", "hunter2"),
        ('{"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIhunter2\\n-----END PRIVATE KEY-----\\n"}', "hunter2"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIhunter2", "hunter2"),
        ("AccountName=acc;AccountKey=hunter2==;SharedAccessSignature=sv=1", "hunter2"),
        ("SharedAccessSignature=sv=1&sig=hunter2", "hunter2"),
        ("x&sig=hunter2&se=2", "hunter2"),
        ("S3FileSystem(**{'key': 'hunter2', 'endpoint_url': 'http://minio'})", "hunter2"),
        ("(spark.hadoop.fs.s3a.access.key,hunter2)", "hunter2"),
        ("AWS_ACCESS_KEY_ID=hunter2", "hunter2"),
        ("Authorization: Bearer eyJhunter2", "hunter2"),
        ("fs.azure.sas.container.acc=hunter2", "hunter2"),
    ],
)
def test_a_secret_is_gone(text, secret):
    assert secret not in redact(text)


def test_a_secret_that_the_process_has_is_gone_in_whatever_form(monkeypatch):
    options = {
        "azure": {"connection_string": "AccountName=acc;AccountKey=hun+ter2=="},
        "s3": {"key": "AKIAMINE", "anon": False},
    }
    monkeypatch.setenv("AIRFLOW_DELTA_STORAGE_OPTIONS", json.dumps(options))
    assert redact("no AKIAMINE may hun+ter2== here") == "no *** may *** here"
    monkeypatch.setenv("AIRFLOW_DELTA_STORAGE_OPTIONS", "AKIAMINE")
    assert redact("no AKIAMINE") == "no AKIAMINE"


@pytest.mark.parametrize(
    "text",
    [
        "[DELTA_SCHEMA_MISMATCH] the rows do not fit s3://lake/flights: dep_delay is missing (at line 3)",
        "a disaster: Kansas = 1, the key is day",
    ],
)
def test_an_ordinary_text_stays(text):
    assert redact(text) == text
