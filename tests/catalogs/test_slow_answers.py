"""A server that sends its response byte by byte, each in time: the timeout also applies to the response as a whole."""

import socket
import threading
import time
from contextlib import contextmanager

import pytest

from airflow_delta.catalogs.bounded_call import within
from airflow_delta.catalogs.errors import CatalogUnavailableError
from airflow_delta.catalogs.hive import HiveCatalog
from airflow_delta.catalogs.table_name import TableName
from airflow_delta.catalogs.unity import UnityCatalog
from airflow_delta.catalogs.unity_commits import UnityCommits
from airflow_delta.core.errors import StorageUnavailableError

SECONDS = 0.4
ANSWERS = {
    "headers": b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 10_000,
    "body": b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n" + b"{" * 10_000,
    "error": b"HTTP/1.1 500 Error\r\nContent-Length: 10000\r\n\r\n" + b"{" * 10_000,
}


THRIFT = b"\x80\x01\x00\x02\x00\x00\x27\x10" + b"x" * 10_000
"""A reply whose method has a name of 10,000 characters."""


@pytest.fixture(params=ANSWERS)
def dripping(request):
    """The URL of such a server."""
    with server_of(ANSWERS[request.param]) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def server_of(answer):
    """The port of a server that sends the beginning of this response at once, and the rest one byte per 20 ms."""
    listener, is_over = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def drip(connection):
        with connection:
            connection.recv(1 << 16)
            connection.sendall(answer[:60])
            for byte in answer[60:]:
                if is_over.wait(0.02):
                    return
                connection.sendall(bytes([byte]))

    def accept():
        while not is_over.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=drip, args=[connection], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    is_over.set()
    listener.shutdown(socket.SHUT_RDWR)  # else it accepts one more connection
    listener.close()


def seconds_of(call, error):
    began = time.monotonic()
    with pytest.raises(error, match="TimeoutError"):
        call()
    return time.monotonic() - began


def test_the_commits_of_a_managed_table_are_not_waited_for_longer_than_said(dripping):
    commits = UnityCommits(uri=dripping, table_id="id", table_uri="s3://lake/orders", timeout=SECONDS)
    assert SECONDS <= seconds_of(commits.ratified, StorageUnavailableError) < 10 * SECONDS


def test_what_a_name_stands_for_is_not_waited_for_longer_than_said(dripping):
    catalog = UnityCatalog(dripping, catalog="main", timeout=SECONDS)
    name = TableName("orders", "sales")
    assert SECONDS <= seconds_of(lambda: catalog.find(name), CatalogUnavailableError) < 10 * SECONDS


def test_a_hive_metastore_is_not_waited_for_longer_than_said():
    with server_of(THRIFT) as port:
        catalog = HiveCatalog(f"thrift://127.0.0.1:{port}", timeout=SECONDS)
        name = TableName("orders", "sales")
        assert SECONDS <= seconds_of(lambda: catalog.find(name), CatalogUnavailableError) < 10 * SECONDS


def test_an_answer_in_time_is_returned_and_an_error_raised():
    assert within(5, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 / 0)
