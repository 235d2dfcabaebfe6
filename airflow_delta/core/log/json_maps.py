"""The maps of file actions in JSON lines, with exactly their keys: a missing key differs from a null value.

Arrow's JSON reader has no map type, and a struct of all keys would cost rows times keys. So the text of each map is cut out of
its line, and of equal texts, which are frequent, only one is parsed.

Protocol: PROTOCOL.md, "Add File and Remove File", "Add CDC File".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# RE2 runs in linear time; every byte allows only one continuation, which doubles the speed. A pattern matches a line from its
# start, member by member, in the order in which all known writers write them; other lines are parsed as a whole.
_TEXT = r'"(?:[^"\\]|\\.)*"'
_MAP = rf'\{{(?:[^{{}}"]|{_TEXT})*\}}'
_PLAIN = "[0-9A-Za-z.+-]+"
_START = r'^\{"(?:add|remove|cdc)":\{"'
_PATTERNS = {
    "partitionValues": rf'{_START}path":{_TEXT},"(?:[a-oq-z][A-Za-z]*":{_PLAIN},")*partitionValues":(?P<map>{_MAP})',
    "tags": rf'{_START}(?:[a-su-z][A-Za-z]*":(?:{_PLAIN}|{_TEXT}|{_MAP}),")*tags":(?P<map>{_MAP})',
}
_TEXTS_AT_ONCE = 1000

Members = list[tuple[str, Any]]


def map_texts(lines: pa.LargeStringArray, member: str) -> pa.LargeStringArray:
    """The text of this member in the first action of each line; null where it is absent, or the pattern does not match."""
    return pc.struct_field(pc.extract_regex(lines, _PATTERNS[member]), "map")


def maps_of(is_there: pa.BooleanArray, texts: pa.LargeStringArray, parse_line: Callable[[int], Members]) -> pa.MapArray:
    """One map per action.

    Args:
        is_there: Whether the action has the map.
        texts: The map's text; null if the action has none, or the pattern did not match.
        parse_line: Returns the members of the map of the action with this index, by parsing its whole line.

    Raises:
        ValueError: A map has a key twice, or a line is too large.
        TypeError: A value is not a text.
    """
    encoded = texts.dictionary_encode()
    maps = _parsed(encoded.dictionary.to_pylist())
    indices = encoded.indices.cast(pa.int64())
    is_unread = pc.and_(is_there, texts.is_null())
    unread = pc.indices_nonzero(is_unread).to_pylist()
    if unread:
        indices = pc.replace_with_mask(indices, is_unread, pa.array(range(len(maps), len(maps) + len(unread)), pa.int64()))
        maps += map(parse_line, unread)
    return _map_array(maps).take(indices)


def _parsed(texts: Sequence[str]) -> list[Members]:
    """The members of these objects, parsed together; they contain no nested objects."""
    found = []
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        some = texts[start : start + _TEXTS_AT_ONCE]
        found += json.loads(f"[{','.join(some)}]", object_pairs_hook=list)
    return found


def _map_array(maps: Sequence[Members]) -> pa.MapArray:
    if any(len(members) > 1 and len(dict(members)) < len(members) for members in maps):
        raise ValueError("a map has a key twice")
    ends = list(accumulate(map(len, maps), initial=0))
    keys, items = ([member[at] for members in maps for member in members] for at in (0, 1))
    return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), pa.array(keys, pa.string()), pa.array(items, pa.string()))
