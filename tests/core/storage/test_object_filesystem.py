import logging
import os

import pytest

from airflow_delta.core.errors import UnsupportedStorageError
from airflow_delta.core.storage.object_filesystem import object_filesystem
from airflow_delta.core.storage.object_location import ObjectLocation


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(ConnectionError, OSError), (ValueError, UnsupportedStorageError), (Exception, UnsupportedStorageError)],
)
def test_what_goes_wrong_with_credentials_is_reported_without_them(monkeypatch, raised, expected):
    def refuse(**options):
        raise raised(f"no answer from /tokeninfo?access_token={options['token']}")

    monkeypatch.setattr("gcsfs.core.GCSFileSystem", refuse)
    with pytest.raises(expected) as caught:
        object_filesystem(ObjectLocation.from_uri("gs://bucket/table"), {"token": "hush"})
    assert "hush" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        ({"endpoint": "http://127.0.0.1:9000"}, "no storage options endpoint"),
        ({"Key": "hush", "region": "eu-west-1"}, "no storage options Key, region"),
        ({"endpoint_url": "hush@127.0.0.1:9000"}, "endpoint_url is no URL"),
    ],
)
def test_options_that_s3fs_would_refuse_at_the_first_request_are_refused_before_it(options, detail):
    with pytest.raises(UnsupportedStorageError, match=detail) as caught:
        object_filesystem(ObjectLocation.from_uri("s3://bucket/table"), options)
    assert not caught.value.retryable
    assert "hush" not in str(caught.value)


def test_an_azure_container_without_an_account_says_where_the_account_goes(monkeypatch):
    for name in [name for name in os.environ if name.startswith("AZURE_STORAGE_")]:
        monkeypatch.delenv(name)
    with pytest.raises(UnsupportedStorageError, match="name the account, in abfss://container@account"):
        object_filesystem(ObjectLocation.from_uri("az://container/table"), {})


@pytest.mark.parametrize(("own", "then"), [(logging.NOTSET, logging.WARNING), (logging.INFO, logging.INFO)])
def test_azures_logger_of_requests_is_quiet_at_info_unless_it_has_a_level_of_its_own(monkeypatch, own, then):
    requests = logging.getLogger("azure.core.pipeline.policies.http_logging_policy")
    monkeypatch.setattr(requests, "level", own)
    object_filesystem(ObjectLocation.from_uri("abfss://lake@account.dfs.core.windows.net/table"), {"account_key": "YQ=="})
    assert requests.level == then
