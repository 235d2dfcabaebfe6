"""Seeded mutations of one table's files, each declared harmless or not."""

import copy
import io
import json
import struct
import zlib

import pyarrow.parquet as pq

from tests.core.fuzz import tables
from tests.core.fuzz.mutation import Mutation, bent_bytes, changed_document
from tests.core.fuzz.odd_values import CONFIGURATION, ODD_VALUES, PARTITION_VALUES, SCHEMAS, STATS
from tests.core.fuzz.parquet_mutations import columns_of_other_types, parquet, parquet_bytes, parquet_columns, parquet_fields


def mutation_of(table, random):
    """One mutation of the table, or two at once."""
    kinds = [
        _commit_bytes,
        _commit_lines,
        _commit_fields,
        _commit_fields,
        _specific,
        _files,
        _harmless,
        _data_file,
        _deletion_vector,
    ]
    if table.log_files(".parquet"):
        kinds += [parquet_bytes, parquet_bytes, parquet_columns, parquet_fields]
    kinds += [_last_checkpoint] if table.log_files("_last_checkpoint") else []
    kinds += [_json_file] * 2 if table.log_files(".crc") else []
    first = random.choice(kinds)(table, random)
    if first.is_harmless or random.random() < 0.85:
        return first
    second = random.choice(kinds)(table, random)
    return Mutation(f"{first.text}; {second.text}", first.changes | second.changes)


# -- bytes


def _commit_bytes(table, random):
    path = random.choice(_json_files(table))
    return Mutation(f"bytes of {path}", {path: bent_bytes(table.files[path], random)})


def _json_files(table):
    return table.log_files(".json")


# -- lines


def _commit_lines(table, random):
    path = random.choice(_json_files(table))
    found = table.files[path].splitlines(keepends=True)
    at, other = random.randrange(len(found)), random.randrange(len(found))
    kind = random.choice(["dropped", "doubled", "swapped", "cut", "joined", "unknown", "odd", "of another file", "deep"])
    match kind:
        case "dropped":
            del found[at]
        case "doubled":
            found.insert(at, found[other])
        case "swapped":
            found[at], found[other] = found[other], found[at]
        case "cut":
            found[at] = found[at][: random.randrange(len(found[at]))] + b"\n"
        case "joined":
            found[at] = found[at].rstrip(b"\n")
        case "unknown":
            found.insert(at, random.choice([b'{"unknown":1}\n', b'{"unknown":{"add":{"path":7}}}\n', b'{"future":[1,2]}\n']))
        case "odd":
            found.insert(
                at, random.choice([b"[]\n", b"1\n", b'"add"\n', b"nul\n", b"{}\n", b"null\n", b"\xff\n", b'{"add":7}\n'])
            )
        case "of another file":
            found.insert(at, random.choice(table.files[random.choice(_json_files(table))].splitlines(keepends=True)))
        case "deep":
            opening, closing = random.choice([(b"[", b"]"), (b'{"a":', b"}")])
            depth = random.choice([100, 2000, 100_000])
            found.insert(
                at,
                b'{"%s":' % random.choice([b"unknown", b"add", b"metaData"])
                + opening * depth
                + b"1"
                + closing * depth
                + b"}\n",
            )
    return Mutation(f"line {at} {kind} in {path}", {path: b"".join(found)})


# -- fields


def _commit_fields(table, random):
    path = random.choice(_json_files(table))
    return _with_changed_action(table, path, random, lambda action: changed_document(action, random))


def _with_changed_action(table, path, random, change, wanted=lambda action: True):
    found = table.files[path].splitlines(keepends=True)
    numbers = [number for number, line in enumerate(found) if wanted(json.loads(line))]
    if not numbers:
        return Mutation(f"nothing in {path}", is_harmless=True)
    at = random.choice(numbers)
    document, text = change(json.loads(found[at]))
    found[at] = json.dumps(document, ensure_ascii=random.random() < 0.3, separators=(",", ":")).encode(errors="replace") + b"\n"
    return Mutation(f"{text} in line {at} of {path}", {path: b"".join(found)})


def _specific(table, random):
    """Nonsense values of the right type."""
    kind = random.choice(["schema", "configuration", "partitions", "values", "stats", "protocol", "deletion_vector"])
    actions = {"schema": "metaData", "configuration": "metaData", "partitions": "metaData", "protocol": "protocol"}
    wanted = actions.get(kind, "add")
    paths = [path for path in _json_files(table) if f'"{wanted}"'.encode() in table.files[path]]
    if not paths:
        return _commit_fields(table, random)
    return _with_changed_action(
        table,
        random.choice(paths),
        random,
        lambda action: _made_nonsense(action, kind, random),
        lambda action: wanted in action,
    )


def _made_nonsense(action, kind, random):
    (body,) = action.values()
    match kind:
        case "schema":
            body["schemaString"] = random.choice(SCHEMAS)
            text = body["schemaString"][:80]
        case "configuration":
            key = random.choice(list(CONFIGURATION))
            body["configuration"][key] = text = random.choice(CONFIGURATION[key])
        case "partitions":
            body["partitionColumns"] = text = random.choice([[], ["p"], ["x"], ["p", "p"], ["words"], ["id"], ["P", "d"], [""]])
        case "values":
            body["partitionValues"][random.choice(["p", "d", "q"])] = text = random.choice(PARTITION_VALUES)
        case "stats":
            body["stats"] = text = random.choice(STATS)
        case "protocol":
            body[random.choice(["minReaderVersion", "minWriterVersion"])] = random.choice([0, 1, 2, 4, 8, -1])
            body[random.choice(["readerFeatures", "writerFeatures"])] = text = random.choice(
                [[], ["banana"], ["columnMapping"], ["catalogManaged"], [""], ["typeWidening", "x" * 1000]]
            )
        case _:
            text = changed_deletion_vector(body.setdefault("deletionVector", dict(tables.DELETION_VECTORS["first"])), random)
    return action, f"{kind} {text!r:.80}"


def changed_deletion_vector(deletion_vector, random):
    """Change a descriptor in place; returns a description of the change."""
    name, values = random.choice(
        [
            ("storageType", ["x", "", "p", "i", "u", "r"]),
            ("offset", [0, 2, -1, (1 << 31) - 1, 1 << 31, None]),
            ("sizeInBytes", [0, 1, -1, (1 << 31) - 1, 33]),
            ("cardinality", [0, -1, 2, (1 << 63) - 1]),
            (
                "pathOrInlineDv",
                ["", "abc", "ab^-aqEH.-t@S}K{vb[*k^", "é" * 20, "#" * 20, "x" * 33, "dir/" + "0" * 20, "../" + "0" * 20],
            ),
        ]
    )
    deletion_vector[name] = random.choice(values)
    return f"{name} {deletion_vector[name]!r}"


# -- whole files


def _files(table, random):
    paths = table.log_files()
    path, other = random.choice(paths), random.choice(paths)
    kind = random.choice(["gone", "empty", "as another", "named anew", "replaced"])
    match kind:
        case "gone":
            changes = {path: None}
        case "empty":
            changes = {path: b""}
        case "as another":
            changes = {path: table.files[other]}
        case "named anew":
            names = ["00000000000000000008.json", "00000000000000000012.json", "99999999999999999999.json"]
            names += [f"{version:020}.checkpoint.parquet" for version in (2, 7, 8)]
            names += [f"{6:020}.checkpoint.0000000001.0000000002.parquet", f"{7:020}.checkpoint.abc.json", f"{5:020}.crc"]
            names += [f"{1:020}.{3:020}.compacted.json", f"{3:020}.{1:020}.compacted.json", f"{0:020}.{7:020}.compacted.json"]
            other = f"_delta_log/{random.choice(names)}"
            changes = {other: table.files[path]}
        case _:
            changes = {
                path: random.choice([b"{}", b"PAR1PAR1", random.randbytes(100), b"PAR1" + bytes(200) + b"PAR1", b"\n\n"])
            }
    return Mutation(f"{path} {kind} ({other})", changes)


def _harmless(table, random):
    """Changes that readers must ignore."""
    path = random.choice(_json_files(table))
    documents = [json.loads(line) for line in table.files[path].splitlines()]
    kind = random.choice(
        ["reordered keys", "escaped", "spaced", "blank lines", "unknown things", "info", "no last end", "strays"]
    )
    dump = {"ensure_ascii": False, "separators": (",", ":")}
    end = b"\n"
    match kind:
        case "reordered keys":
            documents = [{key: dict(reversed(body.items())) for key, body in document.items()} for document in documents]
        case "escaped":
            dump["ensure_ascii"] = True
        case "spaced":
            dump["separators"] = (" , ", " :\t")
        case "blank lines":
            end = random.choice([b"\n\n", b"\r\n", b" \n\n \n"])
        case "unknown things":
            for document in documents:
                (body,) = document.values()
                body["zzz"] = copy.deepcopy(random.choice([7, "x", None, [1, {"add": 1}], {"a": {"b": []}}]))
            documents.insert(1, {"unknown": {"path": 1}})
        case "info":
            infos = [7, "x", [], {}, {"operation": 5}, {"operationParameters": []}, {"inCommitTimestamp": 1_600_000_000_000}]
            documents = [
                {"commitInfo": random.choice(infos)} if "commitInfo" in document else document for document in documents
            ]
        case "strays":
            names = [
                ".tmp",
                "_x",
                "abc.json",
                f"{3:020}.json.tmp",
                f".{9:020}.json.crc",
                f"{9:019}.json",
                f"{9:020}.JSON",
                "z.parquet",
            ]
            changes = {f"_delta_log/{random.choice(names)}": random.choice([b"", b"{", b"\0" * 50])}
            return Mutation(f"{kind} {list(changes)}", changes, is_harmless=True)
    body = b"".join(json.dumps(document, **dump).encode() + end for document in documents)
    changes = {path: body.rstrip() if kind == "no last end" else body}
    is_harmless = not path.endswith(".compacted.json") and kind != "info"
    return Mutation(f"{kind} in {path}", changes, is_harmless=is_harmless)


def _last_checkpoint(table, random):
    """Mutate ``_last_checkpoint``, which is only a hint."""
    (path,) = table.log_files("_last_checkpoint")
    hint = json.loads(table.files[path])
    match random.randrange(4):
        case 0:
            content = bent_bytes(table.files[path], random)
        case 1:
            content = random.choice(
                [b"", b"{}", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"version":' + b"9" * 5000 + b"}", b"null"]
            )
        case 2:
            wrong = [0, 1, 7, 8, 1000, (1 << 63) - 1, 1 << 70, -1, 1.5, True, "4", None, [], {}]
            content = json.dumps({**hint, "version": random.choice(wrong)}).encode()
        case _:
            name = random.choice(
                ["size", "parts", "sizeInBytes", "numOfAddFiles", "checksum", "checkpointSchema", "v2Checkpoint"]
            )
            content = json.dumps({**hint, name: random.choice(ODD_VALUES)}).encode(errors="replace")
    return Mutation(f"the hint is {content[:80]}", {path: content}, is_harmless=True)


def _json_file(table, random):
    """Mutate a checksum file."""
    path = random.choice(table.log_files(".crc"))
    if random.random() < 0.3:
        content, text = bent_bytes(table.files[path], random), "bytes"
    else:
        document, text = changed_document(json.loads(table.files[path]), random)
        content = json.dumps(document).encode(errors="replace")
    return Mutation(f"{text} in {path}", {path: content})


# -- data files and deletion vectors


def _data_file(table, random):
    path = random.choice([file for file in sorted(table.files) if file.endswith("x.parquet")])
    content = table.files[path]
    match random.randrange(5):
        case 0:
            return Mutation(f"{path} gone", {path: None})
        case 1:
            return Mutation(f"bytes of {path}", {path: bent_bytes(content, random)})
        case 2:
            rows = pq.read_table(io.BytesIO(content))
            at = random.randrange(rows.num_columns)
            rows = rows.set_column(at, rows.column_names[at], random.choice(columns_of_other_types(len(rows))))
            return Mutation(f"{rows.column_names[at]} retyped in {path}", {path: parquet(rows)})
        case _:
            footer = struct.unpack("<I", content[-8:-4])[0] + 8
            return Mutation(f"footer of {path}", {path: content[:-footer] + bent_bytes(content[-footer:], random)})


def _deletion_vector(table, random):
    """Mutate the deletion vector file: raw bytes, or an odd bitmap under a correct checksum."""
    path, content = tables.BIN_PATH, table.files[tables.BIN_PATH]
    kind = random.choice(["gone", "empty", "bytes", "framed", "framed"])
    if kind == "framed":
        bent = _bent_bitmap(bytearray(tables.IN_FILE), random)
        content = (
            b"\x01" + struct.pack(">i", len(bent)) + bent + struct.pack(">I", zlib.crc32(bent)) + content[1 + len(bent) + 8 :]
        )
    else:
        content = {"gone": None, "empty": b"", "bytes": bent_bytes(content, random)}[kind]
    return Mutation(f"{path} {kind}", {path: content})


def _bent_bitmap(content, random):
    """A bitmap of the same size with odd values for sizes, keys and counts."""
    for _ in range(random.choice([1, 1, 2])):
        at = random.choice([4, 12, 16, 20, 24, 26, 28, 32, random.randrange(len(content))])
        size = random.choice([1, 2, 4])
        number = random.choice(
            [0, 1, 2, 0xFF, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF, 12346, 12347, 12347 | 5 << 16, 12347 | 0xFFFF << 16]
        )
        content[at : at + size] = (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return bytes(content)[: len(tables.IN_FILE)].ljust(len(tables.IN_FILE), b"\0")
