"""Reads of an object in parts are those of a file, with few requests; uploads happen whole or not at all."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.storage import object_streams
from airflow_delta.core.storage.object_streams import RangeReader, WholeUpload

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("seek"), st.integers(0, 120)),
        st.tuples(st.just("read"), st.integers(-1, 60)),
        st.tuples(st.just("end"), st.integers(-30, 0)),
    )
)


def reader_of(content, tail, requests):
    def read_range(start, length):
        assert 0 <= start < start + length <= len(content) - tail
        requests.append((start, length))
        return content[start : start + length]

    return RangeReader(read_range, size=len(content), tail=content[len(content) - tail :])


@given(content=st.binary(max_size=100), share=st.floats(0, 1), ahead=st.integers(1, 30), steps=STEPS)
def test_any_reads_are_those_of_a_file(content, share, ahead, steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(object_streams, "_READ_AHEAD", ahead)
        ours, theirs = reader_of(content, int(len(content) * share), []), io.BytesIO(content)
        for step, number in steps:
            if step == "read":
                assert ours.read(number) == theirs.read(number)
            elif step == "seek":
                assert ours.seek(number) == theirs.seek(number)
            else:
                assert ours.seek(max(number, -len(content)), io.SEEK_END) == theirs.seek(
                    max(number, -len(content)), io.SEEK_END
                )
            assert ours.tell() == theirs.tell()


def test_what_came_with_the_first_request_is_not_asked_for_again():
    requests = []
    reader = reader_of(bytes(100), 100, requests)
    assert reader.read() == bytes(100)
    assert reader.readinto(bytearray(5)) == 0
    assert requests == []


def test_a_part_that_comes_short_is_an_error():
    reader = RangeReader(lambda _start, _length: b"short", size=100, tail=b"")
    with pytest.raises(OSError, match="expected 100 bytes, found 5"):
        reader.read()


def test_nothing_is_before_the_start():
    with pytest.raises(ValueError, match="before the start"):
        reader_of(b"abc", 1, []).seek(-1)


def test_an_upload_gets_the_whole_file_once_and_leaves_none_behind():
    uploads = []
    stream = WholeUpload(lambda path: uploads.append((path, path.read_bytes())))
    stream.write(b"con")
    stream.write(b"tent")
    assert stream.tell() == 7
    stream.close()
    stream.close()
    [(path, content)] = uploads
    assert content == b"content"
    assert not path.exists()


def test_an_upload_that_fails_leaves_no_file_behind():
    seen = []

    def fail(path):
        seen.append(path)
        raise OSError("no answer")

    stream = WholeUpload(fail)
    with pytest.raises(OSError, match="no answer"):
        stream.close()
    assert not seen[0].exists()
