"""Settings of a catalog."""

import pytest

from airflow_delta.catalogs.errors import InvalidCatalogError
from airflow_delta.catalogs.settings import VARIABLE, CatalogSettings, open_catalog, settings_of_environment


def test_a_type_alone_is_enough_for_glue():
    assert CatalogSettings.parse("glue") == CatalogSettings.parse({"type": "glue"}) == CatalogSettings.parse('{"type": "glue"}')


@pytest.mark.parametrize(
    "value",
    ["oracle", "hive", {"type": "unity"}, {"type": "glue", "password": "pw"}, {"type": "glue", "region": 3}, "{", 7, {}],
)
def test_settings_that_are_wrong_are_refused_and_not_shown(value):
    with pytest.raises(InvalidCatalogError) as refused:
        CatalogSettings.parse(value)
    assert "pw" not in str(refused.value)


def test_credentials_are_in_no_text_of_the_settings():
    settings = CatalogSettings(type="unity", uri="https://unity.example", credentials={"token": "secret-token"})
    assert "secret-token" not in f"{settings!r}{settings.to_json()}"
    assert settings.to_json() == {"type": "unity", "uri": "https://unity.example"}


def test_the_environment_names_a_catalog(monkeypatch):
    monkeypatch.setenv(VARIABLE, '{"type": "hive", "uri": "thrift://metastore:9083"}')
    assert open_catalog(settings_of_environment()).label == "hive"
    monkeypatch.delenv(VARIABLE)
    assert settings_of_environment() is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"type": "hive", "uri": "thrift://metastore:port"}, "thrift://host:9083"),
        ({"type": "hive", "uri": "thrift://metastore:1,thrift://metastore:99999"}, "thrift://host:9083"),
        ({"type": "hive", "uri": "thrift://[metastore"}, "thrift://host:9083"),
        ({"type": "unity", "uri": "https://unity:port"}, "https://host"),
        ({"type": "unity", "uri": "https://[unity"}, "https://host"),
        ({"type": "glue", "region": "eu-west-1", "credentials": {"secret": "pw"}}, "some of aws_access_key_id"),
        ({"type": "glue", "region": "eu-west-1", "credentials": {"region_name": "pw"}}, "some of aws_access_key_id"),
    ],
)
def test_a_server_or_credentials_that_are_wrong_are_refused_when_the_catalog_is_opened_and_not_shown(value, text):
    with pytest.raises(InvalidCatalogError, match=text) as refused:
        open_catalog(CatalogSettings.parse(value))
    assert not any(secret in str(refused.value) for secret in ("metastore:", "[metastore", "unity:port", "[unity", "pw"))


def test_an_unknown_member_is_named_and_a_secret_is_not():
    with pytest.raises(InvalidCatalogError) as refused:
        CatalogSettings.parse({"type": "hive", "url": "thrift://host", "dapi0123": "x"})
    assert str(refused.value).count("found url.") == 1
    assert "dapi" not in str(refused.value)
    assert " credentials" not in str(refused.value)


@pytest.mark.parametrize("member", ["token", "conn_id"])
def test_a_token_where_it_does_not_belong_is_told_where_it_does(member):
    with pytest.raises(InvalidCatalogError, match=r'"credentials": \{"token"') as refused:
        CatalogSettings.parse({"type": "unity", "uri": "https://unity.example", member: "secret-token"})
    assert "secret-token" not in str(refused.value)
