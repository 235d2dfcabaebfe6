"""A change of a table's files, and the byte and document changes that mutations are built from."""

import copy
from dataclasses import dataclass, field

from tests.core.fuzz.odd_values import ODD_VALUES


@dataclass
class Mutation:
    """Files to be overwritten in a table.

    Attributes:
        changes: New content by path; None deletes the file.
        is_harmless: Whether every answer must stay the same.
    """

    text: str
    changes: dict = field(default_factory=dict)
    is_harmless: bool = False


def bent_bytes(content, random):
    """Flip, cut, insert or repeat some bytes."""
    content = bytearray(content)
    for _ in range(random.choice([1, 1, 1, 2, 5, 30])):
        at = random.randrange(len(content) + 1)
        match random.randrange(6):
            case 0 if content:
                content[at % len(content)] ^= 1 << random.randrange(8)
            case 1 if content:
                content[at % len(content)] = random.choice([0, 255, 127, 128, 34, 123, 125, 10])
            case 2:
                content[at:at] = random.choice(
                    [b"\0", b"\xff\xfe", b"\n", b'"', b"{}", b"\xed\xa0\x80", b"0" * 40, random.randbytes(4)]
                )
            case 3:
                del content[at : at + random.choice([1, 1, 4, 100])]
            case 4:
                del content[at:]
            case _:
                content[at:at] = content[at : at + random.choice([1, 8, 200])]
    return bytes(content)


def _places(value, where=()):
    """Paths of all values inside a document."""
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*where, key)
        yield from _places(child, (*where, key))


def changed_document(document, random):
    """The document with one value removed, renamed, doubled or replaced."""
    document = copy.deepcopy(document)
    places = list(_places(document))
    if not places:
        return document, "nothing"
    *where, key = random.choice(places)
    parent = document
    for step in where:
        parent = parent[step]
    match random.randrange(5):
        case 0:
            del parent[key]
            text = "removed"
        case 1 if isinstance(parent, dict):
            parent[random.choice(["x", "path", str(key).upper(), f"{key} "])] = parent.pop(key)
            text = "renamed"
        case 2 if isinstance(parent[key], str):
            parent[key] = bent_bytes(parent[key].encode(), random).decode(errors="replace")
            text = "bent"
        case _:
            parent[key] = copy.deepcopy(random.choice(ODD_VALUES))
            text = f"{parent[key]!r:.60}"
    return document, f"{'.'.join(map(str, (*where, key)))} {text}"
