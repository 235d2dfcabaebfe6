"""The fields of the providers' connections as storage options."""

import json

import pytest
from airflow.sdk import Connection

from airflow_delta.core.storage.object_location import ObjectService
from airflow_delta.hooks.errors import DeltaConnectionError
from airflow_delta.hooks.storage_connection import options_of_connection


def options(conn_type, extra=None, **fields):
    return options_of_connection(Connection(conn_id="store", conn_type=conn_type, extra=extra, **fields))


@pytest.mark.parametrize(
    ("fields", "extra", "expected"),
    [
        ({}, "{}", {}),
        ({"login": "AKIA", "password": "s"}, "", {"key": "AKIA", "secret": "s"}),
        (
            {},
            '{"aws_access_key_id": "AKIA", "aws_secret_access_key": "s", "aws_session_token": "t", "region_name": "eu-west-1"}',
            {"key": "AKIA", "secret": "s", "token": "t", "client_kwargs": {"region_name": "eu-west-1"}},
        ),
        (
            {},
            '{"endpoint_url": "http://all", "service_config": {"s3": {"endpoint_url": "http://minio"}}, "verify": false}',
            {"endpoint_url": "http://minio", "client_kwargs": {"verify": False}},
        ),
        ({}, '{"profile_name": "lake", "region_name": "", "role_arn": ""}', {"profile": "lake"}),
    ],
)
def test_amazon(fields, extra, expected):
    assert options("aws", extra, **fields) == (ObjectService.S3, expected)


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("{}", {}),
        ('{"key_path": "/run/key.json", "project": "lake"}', {"token": "/run/key.json", "project": "lake"}),
        ('{"keyfile_dict": "{\\"private_key\\": \\"k\\"}"}', {"token": {"private_key": "k"}}),
        ('{"keyfile_dict": "\\n {\\"private_key\\": \\"k\\"}\\n"}', {"token": {"private_key": "k"}}),
        ('{"keyfile_dict": {"private_key": "k"}}', {"token": {"private_key": "k"}}),
        ('{"extra__google_cloud_platform__project": "lake"}', {"project": "lake"}),
        ('{"is_anonymous": true, "gcs.endpoint": "http://g"}', {"token": "anon", "endpoint_url": "http://g"}),
    ],
)
def test_google(extra, expected):
    assert options("google_cloud_platform", extra) == (ObjectService.GCS, expected)


@pytest.mark.parametrize(
    ("conn_type", "fields", "extra", "expected"),
    [
        ("wasb", {"login": "acc", "password": "k"}, "", {"account_name": "acc", "account_key": "k"}),
        ("wasb", {"host": "https://acc.blob.core.windows.net/"}, '{"sas_token": "sv=1&sig=s"}', {"sas_token": "sv=1&sig=s"}),
        ("wasb", {"login": "acc"}, '{"sas_token": "https://acc.blob.core.windows.net/?sig=s"}', {"sas_token": "sig=s"}),
        (
            "wasb",
            {},
            '{"connection_string": "AccountName=acc"}',
            {"connection_string": "AccountName=acc", "account_name": None},
        ),
        (
            "wasb",
            {"host": "acc.blob.core.windows.net", "login": "app", "password": "s"},
            '{"tenant_id": "t"}',
            {"client_id": "app", "client_secret": "s", "tenant_id": "t"},
        ),
        ("adls", {"host": "acc", "password": "k"}, "", {"account_key": "k"}),
        (
            "azure_data_lake",
            {"login": "app", "password": "s"},
            '{"tenant": "t", "account_name": "acc"}',
            {"client_id": "app", "client_secret": "s", "tenant_id": "t"},
        ),
    ],
)
def test_azure(conn_type, fields, extra, expected):
    wanted = {"account_name": "acc"} | expected
    set_options = {name: value for name, value in wanted.items() if value is not None}
    assert options(conn_type, extra, **fields) == (ObjectService.AZURE, set_options)


@pytest.mark.parametrize(
    ("conn_type", "extra", "text"),
    [
        ("ssh", "{}", "found 'ssh'"),
        ("aws", '{"role_arn": "arn:aws:iam::1:role/lake"}', "the field role_arn is not supported"),
        ("google_cloud_platform", '{"impersonation_chain": "a@b"}', "the field impersonation_chain is not supported"),
        ("wasb", '{"managed_identity_client_id": "id"}', "the field managed_identity_client_id is not supported"),
        ("adls", '{"tenant_id": "t", "workload_identity_tenant_id": "w"}', "the field workload_identity_tenant_id is not"),
    ],
)
def test_what_no_option_can_say_is_refused_with_what_to_do_instead(conn_type, extra, text):
    with pytest.raises(DeltaConnectionError, match=text) as caught:
        options(conn_type, extra)
    assert caught.value.cure


@pytest.mark.parametrize(
    ("conn_type", "extra", "text"),
    [
        ("wasb", {"sas_token": 12345}, "expected a text in the field sas_token, found a int"),
        ("aws", {"aws_access_key_id": ["12345"]}, "expected a text in the field aws_access_key_id, found a list"),
        ("aws", {"config_kwargs": "12345"}, "expected an object in the field config_kwargs, found a str"),
        ("aws", {"verify": 12345}, "expected true, false or a text in the field verify, found a int"),
        ("google_cloud_platform", {"keyfile_dict": 12345}, "expected a text or an object in the field keyfile_dict"),
        ("aws", [12345], "expected the extra to be a JSON object, found a list"),
    ],
)
def test_a_field_of_another_type_is_refused_and_not_shown(conn_type, extra, text):
    with pytest.raises(DeltaConnectionError, match=text) as refused:
        options(conn_type, json.dumps(extra))
    assert "12345" not in repr(refused.value)


def test_a_key_file_that_is_no_json_is_refused_and_not_shown():
    with pytest.raises(DeltaConnectionError, match="keyfile_dict is not a JSON object") as refused:
        options("google_cloud_platform", json.dumps({"keyfile_dict": '{"private_key": "hidden",}'}))
    assert "hidden" not in f"{refused.value!r}{refused.value.__cause__!r}"
    assert refused.value.__suppress_context__
