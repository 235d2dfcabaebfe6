"""NULLs in fields of a struct that is NULL itself, which no reader sees.

Arrow's writer rejects them in NOT NULL fields, although no row violates the constraint.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_kinds = pa.types


def without_hidden_nulls(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, with arbitrary values instead of NULL in NOT NULL fields of structs that are NULL."""
    columns = [_shown(column, None, is_required=False) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def has_required_members(kind: pa.DataType) -> bool:
    """Whether the type contains a struct with a NOT NULL field."""
    fields = [kind.field(index) for index in range(kind.num_fields)]
    return any((_kinds.is_struct(kind) and not field.nullable) or has_required_members(field.type) for field in fields)


def _shown(array: pa.Array, hidden: pa.Array | None, *, is_required: bool) -> pa.Array:
    """The values with hidden NULLs filled; ``hidden`` marks those inside of a NULL struct."""
    kind = array.type
    if not _kinds.is_nested(kind):
        return _valid(array) if _are_hidden(array, hidden, is_required=is_required) else array
    nulls = array.is_null()
    is_valid = not array.null_count or _are_hidden(array, hidden, is_required=is_required)
    if _kinds.is_struct(kind):
        below = nulls if hidden is None else pc.or_(nulls, hidden)
        members = [_shown(array.field(at), below, is_required=not member.nullable) for at, member in enumerate(kind)]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=None if is_valid else nulls)
    if _kinds.is_map(kind):
        items = [_shown(child, None, is_required=False) for child in (array.keys, array.items)]
        values = pa.StructArray.from_arrays(items, fields=[kind.key_field, kind.item_field])
    else:
        values = _shown(array.values, None, is_required=False)
    validity, offsets = array.buffers()[:2]
    count = 0 if is_valid else array.null_count
    return pa.Array.from_buffers(kind, len(array), [None if is_valid else validity, offsets], count, array.offset, [values])


def _are_hidden(array: pa.Array, hidden: pa.Array | None, *, is_required: bool) -> bool:
    """Whether a required field has NULLs, all of which are hidden."""
    if not is_required or hidden is None or not array.null_count:
        return False
    return bool(pc.all(pc.or_(array.is_valid(), hidden)).as_py())


def _valid(array: pa.Array) -> pa.Array:
    """The values, with NULLs replaced by whatever the buffers contain."""
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], 0, array.offset)
