"""Secrets are gone from a text, the rest stays."""

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
    ],
)
def test_a_secret_is_gone(text, secret):
    assert secret not in redact(text)


def test_an_ordinary_text_stays():
    text = "[DELTA_SCHEMA_MISMATCH] the rows do not fit s3://lake/flights: dep_delay is missing (at line 3)"
    assert redact(text) == text
