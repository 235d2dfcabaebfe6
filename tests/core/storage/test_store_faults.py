"""S3 error responses, produced by a proxy in front of moto."""

import dataclasses
import pickle

import pytest

from airflow_delta.core.backoff import Backoff
from airflow_delta.core.errors import StorageAccessError, StorageUnavailableError, UnsupportedStorageError
from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.core.storage.s3_log_store import S3LogStore
from tests.core.faulty_proxy import Fault, faulty_proxy, s3_error
from tests.core.object_stores import ObjectStore, s3_bucket

COMMIT = "_delta_log/00000000000000000000.json"
CONFLICT = s3_error(409, "ConditionalRequestConflict")
FOR_EVER = 1000


@pytest.fixture(scope="module")
def running_proxy(moto_server):
    with faulty_proxy(moto_server) as proxy:
        yield proxy


@pytest.fixture
def proxy(running_proxy):
    running_proxy.faults, running_proxy.dropped_headers = [], set()
    running_proxy.seen.clear()
    return running_proxy


def behind(proxy, bucket) -> ObjectStore:
    """The bucket as seen through the proxy; the package itself does not repeat what was answered."""
    options = bucket.options | {"endpoint_url": proxy.url, "config_kwargs": {"retries": {"max_attempts": 0}}}
    return dataclasses.replace(bucket, options=options)


@pytest.fixture
def new_bucket(proxy, moto_server):
    return behind(proxy, s3_bucket(moto_server))


@pytest.fixture(scope="module")
def bucket(running_proxy, moto_server):
    return behind(running_proxy, s3_bucket(moto_server))


@pytest.fixture(scope="module")
def pauses():
    return []


@pytest.fixture(scope="module")
def proven_store(bucket, pauses):
    backoff = Backoff(tries=4, first=1.0, most=100.0, sleep=pauses.append, jitter=lambda: 1.0)
    return S3LogStore(f"{bucket.uri}/table", bucket.options, reads=backoff, creates=backoff)


@pytest.fixture
def store(proven_store, proxy, pauses):
    """A table with a single file, in a bucket that was probed before; pauses are only recorded."""
    proven_store.delete([file.path for file in proven_store.list_all()])
    proven_store.write_if_absent("_delta_log/first", b"1")
    proxy.seen.clear()
    pauses.clear()
    return proven_store


def test_a_put_that_meets_another_put_under_way_is_sent_again(store, proxy, pauses):
    proxy.faults = [Fault("PUT", COMMIT, times=3, answer=CONFLICT)]
    store.write_if_absent(COMMIT, b"mine")
    assert store.read(COMMIT) == b"mine"
    assert proxy.count("PUT", COMMIT) == 4
    assert pauses == [1.0, 2.0, 4.0]


def test_when_the_other_put_under_way_wins_the_version_is_taken(store, proxy, bucket):
    bucket.client.put_object(Bucket=bucket.bucket, Key=f"table/{COMMIT}", Body=b"theirs")
    proxy.faults = [Fault("PUT", COMMIT, times=2, answer=CONFLICT)]
    with pytest.raises(FileExistsError):
        store.write_if_absent(COMMIT, b"mine")
    assert store.read(COMMIT) == b"theirs"


def test_a_put_that_is_put_off_for_ever_ends_in_an_error_that_says_nothing(store, proxy, pauses):
    proxy.faults = [Fault("PUT", COMMIT, times=FOR_EVER, answer=CONFLICT)]
    with pytest.raises(OSError, match="409 ConditionalRequestConflict") as caught:
        store.write_if_absent(COMMIT, b"mine")
    assert not isinstance(caught.value, FileExistsError)
    assert pauses == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("members", [{"Condition": "If-None-Match"}, {}])
def test_a_412_says_that_the_version_is_taken_however_it_is_worded(store, proxy, members):
    proxy.faults = [Fault("PUT", COMMIT, answer=s3_error(412, "PreconditionFailed", **members))]
    with pytest.raises(FileExistsError):
        store.write_if_absent(COMMIT, b"mine")


@pytest.mark.parametrize(
    "answer",
    [
        s3_error(500, "InternalError"),
        pytest.param(s3_error(503, "SlowDown"), marks=pytest.mark.slow),
        pytest.param(s3_error(400, "RequestTimeout"), marks=pytest.mark.slow),
        None,
    ],
)
@pytest.mark.parametrize("arrives", [True, False])
def test_a_put_without_a_clear_answer_is_not_taken_for_a_verdict(store, proxy, answer, arrives):
    proxy.faults = [Fault("PUT", COMMIT, times=FOR_EVER, answer=answer, arrives=arrives)]
    with pytest.raises(OSError, match=COMMIT) as caught:
        store.write_if_absent(COMMIT, b"mine")
    if not arrives:
        assert not isinstance(caught.value, FileExistsError)
    assert store.exists(COMMIT) is arrives


def test_a_put_whose_answer_the_package_lost_and_sent_again_counts_as_taken(store, proxy):
    """s3fs repeats a PUT when the connection breaks; the second one meets the first one's object."""
    proxy.faults = [Fault("PUT", COMMIT, times=1, arrives=True)]
    with pytest.raises(FileExistsError):
        store.write_if_absent(COMMIT, b"mine")
    assert proxy.count("PUT", COMMIT) == 2
    assert store.read(COMMIT) == b"mine"


def test_reads_are_repeated_while_there_is_no_answer(store, proxy, pauses):
    store.write(COMMIT, b"content")
    for method in ("GET", "HEAD"):
        proxy.faults = [Fault(method, COMMIT, times=3, answer=s3_error(500, "InternalError"))]
        assert store.read(COMMIT) == b"content"
        assert store.exists(COMMIT)
        assert store.open_input(COMMIT).read() == b"content"
        assert pauses == [1.0, 2.0, 4.0]
        pauses.clear()
    proxy.faults = [Fault("GET", "list-type=2", times=2, answer=s3_error(503, "ServiceUnavailable"))]
    assert [file.path for file in store.list_from("_delta_log")] == [COMMIT, "_delta_log/first"]


def test_a_range_of_an_empty_file_is_no_missing_file(store, proxy):
    store.write("empty", b"")
    proxy.faults = [Fault("GET", "empty", answer=s3_error(416, "InvalidRange"))]
    assert store.open_input("empty").read() == b""


def test_a_file_that_is_replaced_while_it_is_read_is_an_error_not_a_mixture(store, monkeypatch):
    monkeypatch.setattr("airflow_delta.core.storage.fsspec_log_store.END_BYTES", 10)
    store.write("x", b"a" * 100)
    stream = store.open_input("x")
    store.write("x", b"b" * 100)
    with pytest.raises(OSError, match="was replaced while it was read"):
        stream.read()


@pytest.mark.parametrize(
    "answer",
    [
        s3_error(403, "AccessDenied"),
        s3_error(403, "InvalidAccessKeyId"),
        s3_error(400, "ExpiredToken"),
        s3_error(301, "PermanentRedirect"),
        s3_error(404, "NoSuchBucket"),
    ],
)
def test_a_refusal_is_an_error_of_ours_without_secrets(store, proxy, answer, pauses):
    proxy.faults = [Fault(method, "", times=FOR_EVER, answer=answer) for method in ("GET", "PUT", "POST")]
    requests = [
        lambda: store.read(COMMIT),
        lambda: list(store.list_from("_delta_log")),
        lambda: store.write_if_absent(COMMIT, b"x"),
        lambda: store.write(COMMIT, b"x"),
        lambda: store.delete([COMMIT]),
    ]
    for request in requests:
        with pytest.raises(StorageAccessError) as caught:
            request()
        assert str(answer[0]) in caught.value.detail
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert pauses == []


def test_secrets_do_not_appear_in_what_a_service_says(store, proxy, monkeypatch):
    monkeypatch.setitem(store._options, "secret", "s3cr3t")
    message = "The signature of s3cr3t for https://host/x?X-Amz-Signature=abc does not match"
    proxy.faults = [Fault("GET", "", answer=s3_error(403, "SignatureDoesNotMatch", Message=message))]
    with pytest.raises(StorageAccessError) as caught:
        store.read(COMMIT)
    assert "s3cr3t" not in str(caught.value)
    assert "X-Amz-Signature" not in str(caught.value)


def test_a_delete_that_is_refused_for_one_file_is_an_error(store, proxy):
    body = b"<DeleteResult><Error><Key>table/x</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"
    proxy.faults = [Fault("POST", "delete", answer=(200, body))]
    with pytest.raises(StorageAccessError):
        store.delete(["x"])


class TestProbe:
    def test_a_store_that_ignores_the_condition_is_refused_for_writing_only(self, new_bucket, proxy):
        proxy.dropped_headers = {"if-none-match"}
        new_bucket.client.put_object(Bucket=new_bucket.bucket, Key="table/x", Body=b"content")
        store = log_store_for(f"{new_bucket.uri}/table", new_bucket.options)
        for _ in range(2):
            with pytest.raises(UnsupportedStorageError) as caught:
                store.write_if_absent(COMMIT, b"mine")
            assert "allow_unsafe" in str(caught.value)
        assert store.read("x") == b"content"
        assert [file.path for file in store.list_all()] == ["x"]
        assert proxy.count("PUT") == 2  # the probe, twice, and once only

    def test_a_store_that_does_not_know_the_condition_is_refused_too(self, new_bucket, proxy):
        proxy.faults = [Fault("PUT", ".probe", answer=s3_error(501, "NotImplemented"))]
        with pytest.raises(UnsupportedStorageError):
            log_store_for(f"{new_bucket.uri}/table", new_bucket.options).write_if_absent(COMMIT, b"mine")

    def test_whoever_is_alone_may_write_there(self, new_bucket, proxy):
        proxy.dropped_headers = {"if-none-match"}
        store = log_store_for(f"{new_bucket.uri}/table", new_bucket.options | {"allow_unsafe": True})
        store.write_if_absent(COMMIT, b"mine")
        with pytest.raises(FileExistsError):
            store.write_if_absent(COMMIT, b"again")
        assert store.read(COMMIT) == b"mine"
        assert proxy.count("PUT", ".probe") == 0

    def test_a_bucket_is_proven_once_for_all_its_tables(self, new_bucket, proxy):
        for table in ("a", "b"):
            store = log_store_for(f"{new_bucket.uri}/{table}", new_bucket.options)
            for number in range(3):
                store.write_if_absent(f"_delta_log/{number}", b"x")
        assert proxy.count("PUT", ".probe") == 2
        assert proxy.count("PUT") == 8
        assert [file.path for file in store.list_all()] == [f"_delta_log/{number}" for number in range(3)]

    def test_a_probe_that_finds_no_answer_proves_nothing_and_is_made_again(self, new_bucket, proxy):
        store = log_store_for(f"{new_bucket.uri}/table", new_bucket.options)
        proxy.faults = [Fault("PUT", ".probe", answer=s3_error(500, "InternalError"))]
        with pytest.raises(OSError, match="InternalError"):
            store.write_if_absent(COMMIT, b"mine")
        store.write_if_absent(COMMIT, b"mine")
        assert store.read(COMMIT) == b"mine"

    def test_a_probe_that_may_not_be_deleted_does_no_harm(self, new_bucket, proxy):
        proxy.faults = [Fault("POST", "delete", answer=s3_error(403, "AccessDenied"))]
        store = log_store_for(f"{new_bucket.uri}/table", new_bucket.options)
        store.write_if_absent(COMMIT, b"mine")
        assert store.read(COMMIT) == b"mine"

    def test_reading_writes_nothing(self, new_bucket, proxy):
        new_bucket.client.put_object(Bucket=new_bucket.bucket, Key="table/x", Body=b"content")
        store = log_store_for(f"{new_bucket.uri}/table", new_bucket.options)
        assert store.exists("x")
        assert store.read("x") == store.open_input("x").read() == b"content"
        assert [file.path for file in store.list_all()] == [file.path for file in store.list_from("")] == ["x"]
        assert {method for method, _ in proxy.seen} == {"GET", "HEAD"}


def test_a_listing_from_a_version_is_one_request_that_begins_there(store, bucket, proxy):
    for version in range(95, 120):
        bucket.client.put_object(Bucket=bucket.bucket, Key=f"table/_delta_log/{version:020d}.json", Body=b"{}")
    proxy.seen.clear()
    found = [file.path for file in store.list_from("_delta_log", f"{117:020d}")]
    assert found == [*(f"_delta_log/{version:020d}.json" for version in (117, 118, 119)), "_delta_log/first"]
    [(method, path)] = proxy.seen
    assert method == "GET"
    assert f"start-after=table%2F_delta_log%2F{11:019d}" in path


def test_a_listing_of_many_pages_is_complete(store, bucket, proxy):
    for number in range(10):
        bucket.client.put_object(Bucket=bucket.bucket, Key=f"table/many/{number:05d}", Body=b"")
    paged = log_store_for(f"{bucket.uri}/table", bucket.options | {"s3_additional_kwargs": {"MaxKeys": 3}})
    assert [file.path for file in paged.list_all("many")] == [f"many/{number:05d}" for number in range(10)]
    assert [file.path for file in paged.list_from("many", "00004")] == [f"many/{number:05d}" for number in range(4, 10)]
    assert proxy.count("GET") == 4 + 4


def test_files_are_deleted_a_thousand_at_a_time(store, proxy):
    proxy.seen.clear()
    store.delete(f"x/{number}" for number in range(2500))
    assert proxy.seen == [("POST", path) for _, path in proxy.seen]
    assert len(proxy.seen) == 3


def test_small_files_come_with_one_request_and_large_ones_with_few(store, proxy):
    small, large = b"s" * 1000, bytes(range(256)) * (3 << 12)
    store.write("small", small)
    store.write("large", large)
    proxy.seen.clear()
    assert store.open_input("small").read() == small
    assert len(proxy.seen) == 1
    proxy.seen.clear()
    stream = store.open_input("large")
    stream.seek(-8, 2)
    assert stream.read() == large[-8:]
    stream.seek(0)
    assert b"".join(iter(lambda: stream.read(100_000), b"")) == large
    assert len(proxy.seen) == 3  # the end, and two MiB before it


def test_what_others_wrote_since_the_last_listing_is_seen(store, bucket):
    list(store.list_from("_delta_log"))
    bucket.client.put_object(Bucket=bucket.bucket, Key=f"table/{COMMIT}", Body=b"theirs")
    assert [file.path for file in store.list_from("_delta_log")] == [COMMIT, "_delta_log/first"]
    assert store.exists(COMMIT)


def test_marks_of_directories_are_no_files(store, bucket):
    bucket.client.put_object(Bucket=bucket.bucket, Key="table/p=1/", Body=b"")
    assert [file.path for file in store.list_all()] == ["_delta_log/first"]
    assert list(store.list_from("p=1")) == []


def test_a_large_file_is_uploaded_in_parts_or_not_at_all(store, monkeypatch):
    monkeypatch.setattr("airflow_delta.core.storage.fsspec_log_store._AT_ONCE", 1000)
    with store.open_output("large") as stream:
        stream.write(b"x" * 2000)
        assert not store.exists("large")
    assert store.read("large") == b"x" * 2000


def test_an_upload_that_fails_is_heard_of(store, proxy):
    proxy.faults = [Fault("PUT", "table/x", times=FOR_EVER, answer=s3_error(500, "InternalError"))]
    with pytest.raises(OSError, match="InternalError"), store.open_output("x") as stream:
        stream.write(b"content")
    assert not store.exists("x")


def test_options_of_which_no_client_is_made_are_an_error_of_the_configuration():
    options = {"key": "hush", "client_kwargs": {"aws_access_key_id": "another"}}
    store = S3LogStore("s3://bucket/table", options)
    with pytest.raises(UnsupportedStorageError, match=r"no client is made .*'client_kwargs', 'key'") as caught:
        store.read(COMMIT)
    assert (caught.value.retryable, "hush" in str(caught.value)) == (False, False)
    assert caught.value.__suppress_context__


def test_a_type_error_of_a_request_is_not_taken_for_one_of_the_configuration(store, monkeypatch):
    async def fails(*_, **__):
        raise TypeError("an answer that aiohttp cannot read")

    monkeypatch.setattr(store._filesystem, "_call_s3", fails)
    with pytest.raises(StorageUnavailableError, match="an answer that aiohttp cannot read"):
        store.read(COMMIT)
