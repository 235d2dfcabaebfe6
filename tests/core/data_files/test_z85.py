import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_delta.core.data_files.z85 import z85_decoded, z85_encoded


def test_the_example_of_the_specification_is_read_and_written():
    content = bytes([0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B])
    assert z85_encoded(content) == "HelloWorld"
    assert z85_decoded("HelloWorld") == content


@given(st.binary(max_size=40))
def test_bytes_go_round_filled_up_with_zeros(content):
    assert z85_decoded(z85_encoded(content)) == content + b"\0" * (-len(content) % 4)


@pytest.mark.parametrize("text", ["abcd", "a~bcd", "#####", "\u0661" * 5])
def test_what_spells_no_bytes_is_refused(text):
    with pytest.raises(ValueError, match="Base85"):
        z85_decoded(text)
