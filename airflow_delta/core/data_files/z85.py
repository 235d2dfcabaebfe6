"""Z85, ZeroMQ's base-85 encoding, for bytes in the log: five characters for four bytes; https://rfc.zeromq.org/spec/32/."""

from __future__ import annotations

import struct

_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = {character: digit for digit, character in enumerate(_CHARACTERS)}
_POWERS = (85**4, 85**3, 85**2, 85, 1)
_MAX_WORD = (1 << 32) - 1


def z85_encoded(content: bytes) -> str:
    """The bytes as text, padded with zeros to a multiple of four bytes."""
    padded = content + b"\0" * (-len(content) % 4)
    return "".join(_CHARACTERS[word // power % 85] for (word,) in struct.iter_unpack(">I", padded) for power in _POWERS)


def z85_decoded(text: str) -> bytes:
    """The bytes that a text encodes.

    Raises:
        ValueError: The text is not valid Z85.
    """
    try:
        digits = [_DIGITS[character] for character in text]
    except KeyError as error:
        raise ValueError(f"{text[:40]!r} is not Base85") from error
    if len(digits) % 5:
        raise ValueError(f"{text[:40]!r} is not Base85: its length is not a multiple of 5")
    words = [sum(map(int.__mul__, digits[start : start + 5], _POWERS)) for start in range(0, len(digits), 5)]
    if words and max(words) > _MAX_WORD:
        raise ValueError(f"{text[:40]!r} is not Base85: five characters are more than four bytes")
    return struct.pack(f">{len(words)}I", *words)
