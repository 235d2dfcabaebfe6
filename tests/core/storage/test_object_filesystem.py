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
