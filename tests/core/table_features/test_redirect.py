import json

import pytest

from airflow_delta.core.errors import TableRedirectedError
from tests.core.builders import HandmadeLog, metadata, protocol

SPARK_SAYS = {
    "type": "PathBasedRedirect",
    "state": "REDIRECT-READY",
    "spec": '{"tablePath":"s3://lake/orders"}',
    "noRedirectRules": [],
}


def pointing(feature, text):
    readers = [feature] if "Reader" in feature else []
    listed = protocol(3, 7, readerFeatures=readers, writerFeatures=[feature])
    return HandmadeLog().commit(listed, metadata(**({} if text is None else {f"delta.{feature}": text}))).log


@pytest.mark.parametrize("preview", ["", "-preview"])
def test_a_table_that_is_redirected_is_not_read_and_the_error_says_where_it_points(preview):
    with pytest.raises(TableRedirectedError) as caught:
        pointing(f"redirectReaderWriter{preview}", json.dumps(SPARK_SAYS)).snapshot()
    error = caught.value
    assert (error.target, error.state, error.feature) == (
        "s3://lake/orders",
        "REDIRECT-READY",
        f"redirectReaderWriter{preview}",
    )
    assert "use s3://lake/orders instead" in str(error)


def test_a_table_that_redirects_only_its_writers_is_read_and_not_written():
    log = pointing("redirectWriterOnly-preview", json.dumps(SPARK_SAYS))
    assert log.snapshot().schema.names == ("id",)
    with pytest.raises(TableRedirectedError) as caught:
        log.alter().set_properties({"owner": "me"})
    assert caught.value.target == "s3://lake/orders"
    assert log.refresh().version == 0


@pytest.mark.parametrize(
    ("text", "target", "state"),
    [
        ('{"state":"READY","spec":{"table":"main.sales.orders"}}', "main.sales.orders", "READY"),
        ('{"spec":{"catalog":7}}', '{"spec":{"catalog":7}}', ""),
        ("nowhere", "nowhere", ""),
        ("[1]", "[1]", ""),
        (" ", "a place that the table does not name", ""),
        ("x" * 5000, "x" * 1000, ""),
    ],
)
def test_whatever_the_property_holds_the_table_is_refused(text, target, state):
    with pytest.raises(TableRedirectedError) as caught:
        pointing("redirectReaderWriter", text).snapshot()
    assert (caught.value.target, caught.value.state) == (target, state)


def test_a_table_that_only_lists_the_feature_points_nowhere():
    log = pointing("redirectReaderWriter-preview", None)
    assert log.snapshot().version == 0
    assert log.alter().set_properties({"owner": "me"}).version == 1
