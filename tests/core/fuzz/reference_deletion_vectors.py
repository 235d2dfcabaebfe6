"""Decodes deletion vectors slowly, byte by byte, as the fuzz reference."""

import struct
import zlib
from urllib.parse import unquote

from tests.core.fuzz.reference import MalformedError, UnclearError
from tests.core.fuzz.tables import Z85

DIGITS = {character: digit for digit, character in enumerate(Z85)}


def deleted_positions(files, deletion_vector):
    """The positions in a deletion vector; the cardinality in the log is not checked."""
    text = deletion_vector["pathOrInlineDv"]
    size = deletion_vector["sizeInBytes"]
    try:
        is_inline = deletion_vector["storageType"] == "i"
        content = _unz85(text)[:size] if is_inline else _content_in_file(files, deletion_vector, text, size)
        positions = list(_bitmap(content))
    except (KeyError, ValueError, struct.error, IndexError) as error:
        raise MalformedError(f"deletion vector: {error!r}") from error
    return set(positions)


def _content_in_file(files, deletion_vector, text, size):
    offset = deletion_vector.get("offset") or 0
    if deletion_vector["storageType"] != "u" or offset < 0 or size < 0:
        raise UnclearError("another kind of deletion vector")
    name = _unz85(text[-20:])
    path = f"{text[:-20]}/deletion_vector_{name.hex()[:8]}-".lstrip("/")
    path += "-".join((name.hex()[8:12], name.hex()[12:16], name.hex()[16:20], name.hex()[20:])) + ".bin"
    framed = files[unquote(path)][offset:]
    if struct.unpack(">i", framed[:4])[0] != size:
        raise ValueError("size")
    content = framed[4 : 4 + size]
    if struct.unpack(">I", framed[4 + size : 8 + size])[0] != zlib.crc32(content):
        raise ValueError("checksum")
    return content


def _unz85(text):
    content = b""
    for start in range(0, len(text), 5):
        word = 0
        for character in text[start : start + 5]:
            word = word * 85 + DIGITS[character]
        content += struct.pack(">I", word)
    if len(text) % 5:
        raise ValueError("length")
    return content


def _bitmap(content):
    magic, count = struct.unpack_from("<iq", content)
    if magic != 1681511377 or count < 0:
        raise ValueError("magic")
    at = 12
    for _ in range(count):
        (upper,) = struct.unpack_from("<I", content, at)
        containers, at = _containers(content, at + 4)
        for key, less_one, is_run in containers:
            positions, at = _container(content, at, less_one + 1, is_run=is_run)
            yield from ((upper << 32) + (key << 16) + position for position in positions)


def _containers(content, at):
    """Key, row count minus one and kind of each container, and the offset of the first one."""
    (cookie,) = struct.unpack_from("<I", content, at)
    at += 4
    if cookie & 0xFFFF == 12347:
        count = (cookie >> 16) + 1
        flags = content[at : at + (count + 7) // 8]
        are_runs = [bool(flags[number // 8] >> number % 8 & 1) for number in range(count)]
        at += len(flags)
    elif cookie == 12346:
        (count,) = struct.unpack_from("<I", content, at)
        at += 4
        if count > 1 << 16:
            raise ValueError("too many containers")
        are_runs = [False] * count
    else:
        raise ValueError("cookie")
    headers = [(*struct.unpack_from("<HH", content, at + 4 * number), are_runs[number]) for number in range(count)]
    return headers, at + 4 * count * (1 if cookie != 12346 and count < 4 else 2)


def _container(content, at, rows, *, is_run):
    """The positions of one container, and the offset of the next one."""
    if is_run:
        (count,) = struct.unpack_from("<H", content, at)
        runs = [struct.unpack_from("<HH", content, at + 2 + 4 * number) for number in range(count)]
        return [number for first, more in runs for number in range(first, first + more + 1)], at + 2 + 4 * count
    if rows <= 4096:
        return struct.unpack_from(f"<{rows}H", content, at), at + 2 * rows
    bits = content[at : at + 8192]
    return [bit for bit in range(1 << 16) if bits[bit // 8] >> bit % 8 & 1], at + 8192
