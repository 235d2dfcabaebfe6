"""Mutations of a log's Parquet files: bytes, columns, rows."""

import io
import struct

import pyarrow as pa
import pyarrow.parquet as pq

from tests.core.fuzz.mutation import Mutation, bent_bytes, changed_document


def parquet_bytes(table, random):
    path = random.choice(table.log_files(".parquet"))
    content = table.files[path]
    footer = struct.unpack("<I", content[-8:-4])[0] + 8
    start, end, part = random.choice([(0, len(content) - footer, "pages"), (len(content) - footer, len(content), "footer")])
    return Mutation(f"{part} of {path}", {path: content[:start] + bent_bytes(content[start:end], random) + content[end:]})


def parquet_columns(table, random):
    """Drop, rename or cast columns."""
    path = random.choice(table.log_files(".parquet"))
    rows = pq.read_table(io.BytesIO(table.files[path]))
    kind = random.choice(
        ["dropped", "retyped", "child dropped", "child retyped", "rows doubled", "rows dropped", "no rows", "sliced"]
    )
    at = random.randrange(rows.num_columns)
    name = rows.column_names[at]
    match kind:
        case "dropped":
            rows = rows.drop_columns([name])
        case "retyped":
            rows = rows.set_column(at, name, random.choice(columns_of_other_types(len(rows))))
        case "child dropped" | "child retyped" if pa.types.is_struct(rows.schema.field(at).type):
            rows = rows.set_column(at, name, _with_child_changed(rows[name].combine_chunks(), kind, random))
        case "rows doubled":
            rows = pa.concat_tables([rows, rows])
        case "rows dropped":
            rows = rows.filter(pa.array([random.random() < 0.8 for _ in range(len(rows))]))
        case "no rows":
            rows = rows.slice(0, 0)
        case _:
            rows = rows.slice(random.randrange(len(rows)))
    return Mutation(f"{kind} {name} of {path}", {path: parquet(rows)})


def columns_of_other_types(rows):
    """Give columns types that no action has."""
    return [
        pa.array(range(rows), pa.int32()),
        pa.array(map(str, range(rows))),
        pa.array([b"\xff\xfe"] * rows),
        pa.array([[number] for number in range(rows)]),
        pa.array([{"path": number, "x": None} for number in range(rows)]),
        pa.array([[(str(number), number)] for number in range(rows)], pa.map_(pa.string(), pa.int64())),
        pa.array([1.5] * rows),
        pa.array([True] * rows),
        pa.nulls(rows),
        pa.nulls(rows, pa.string()),
    ]


def _with_child_changed(values, kind, random):
    children = dict(zip([field.name for field in values.type], values.flatten(), strict=True))
    name = random.choice(list(children))
    if kind == "child dropped" and len(children) > 1:
        del children[name]
    else:
        children[name] = random.choice(columns_of_other_types(len(values)))
    return pa.StructArray.from_arrays(list(children.values()), names=list(children), mask=values.is_null())


def parquet_fields(table, random):
    """Change one row as a document, as far as Arrow can write it."""
    path = random.choice(table.log_files(".parquet"))
    rows = pq.read_table(io.BytesIO(table.files[path]))
    documents = rows.to_pylist()
    at = random.randrange(len(documents))
    documents[at], text = changed_document(
        {key: document for key, document in documents[at].items() if document is not None}, random
    )
    try:
        changed = pa.Table.from_pylist(documents, rows.schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        try:
            changed = pa.Table.from_pylist(documents)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return Mutation(f"{text} cannot be written", is_harmless=True)
    return Mutation(f"{text} in row {at} of {path}", {path: parquet(changed) or table.files[path]})


def parquet(rows):
    stream = io.BytesIO()
    try:
        pq.write_table(rows, stream)
    except (pa.ArrowException, UnicodeEncodeError):  # a struct without children
        return b"PAR1"
    return stream.getvalue()
