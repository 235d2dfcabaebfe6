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
        ({"endpoint_url": "http://"}, "endpoint_url is no URL"),
        ({"endpoint_url": 9000}, "expected endpoint_url to be a text, found a int"),
        ({"key": "hush", "secret": 5}, "expected secret to be a text, found a int"),
        ({"client_kwargs": "hush"}, "expected client_kwargs to be an object, found a str"),
        ({"config_kwargs": "hush"}, "expected config_kwargs to be an object, found a str"),
        ({"s3_additional_kwargs": ["hush"]}, "expected s3_additional_kwargs to be an object, found a list"),
        ({"client_kwargs": {"foo": "hush"}}, "client_kwargs has no foo; it takes .*region_name"),
        ({"client_kwargs": {"config": "hush"}}, "client_kwargs has no config"),
        ({"client_kwargs": {"region_name": 5}}, r"expected client_kwargs\.region_name to be a text, found a int"),
        ({"client_kwargs": {"region_name": "hush hush"}}, r"client_kwargs\.region_name is no name of a region"),
        ({"client_kwargs": {"endpoint_url": "hush"}}, r"client_kwargs\.endpoint_url is no URL"),
        ({"config_kwargs": {"foo": "hush"}}, r"does not take the config_kwargs \['foo'\]"),
        ({"config_kwargs": {"s3": {"addressing_style": "hush"}}}, r"does not take the config_kwargs \['s3'\]"),
    ],
)
def test_options_that_s3fs_would_refuse_at_the_first_request_are_refused_before_it(options, detail):
    with pytest.raises(UnsupportedStorageError, match=detail) as caught:
        object_filesystem(ObjectLocation.from_uri("s3://bucket/table"), options)
    assert not caught.value.retryable
    assert "hush" not in str(caught.value)


def test_options_that_s3fs_takes_are_taken():
    options = {
        "key": "k",
        "secret": "s",
        "token": None,
        "anon": False,
        "use_ssl": False,
        "endpoint_url": "HTTP://127.0.0.1:9000",
        "client_kwargs": {"region_name": "eu-west-1", "verify": False, "aws_session_token": "t"},
        "config_kwargs": {"s3": {"addressing_style": "path"}, "connect_timeout": 1},
        "s3_additional_kwargs": {"ServerSideEncryption": "AES256"},
    }
    made = object_filesystem(ObjectLocation.from_uri("s3://bucket/table"), options)
    assert (made.key, made.client_kwargs["region_name"]) == ("k", "eu-west-1")


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
