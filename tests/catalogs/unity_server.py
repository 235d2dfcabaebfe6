"""A Unity Catalog test server, strict about the "UC Delta API" 1.0 as unitycatalog publishes it in ``api/delta.yaml``.

Requests are checked against that definition: required members, unknown members, types of values, rules of an update. It stores
what it was given, and the properties that a server derives; there are no managed tables. Other engines use the older API
(``api/all.yaml``) to list schemas and tables; it serves the same tables.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

ROOT = ["api", "2.1", "unity-catalog", "delta", "v1", "catalogs"]
OLDER_ROOT = ["api", "2.1", "unity-catalog"]
SQL_TYPES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
PRIMITIVES = {"string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date", "timestamp"}
CREATE = {
    "name": str, "location": str, "table-type": str, "columns": dict, "protocol": dict, "properties": dict,
    "last-commit-timestamp-ms": int,
}  # fmt: skip
CREATE_OPTIONAL = {"comment": str, "partition-columns": list, "domain-metadata": dict, "uniform": dict}
UPDATES = {
    "set-properties": {"updates": dict},
    "remove-properties": {"removals": list},
    "set-columns": {"columns": dict},
    "set-table-comment": {"comment": str},
    "set-protocol": {"protocol": dict},
    "set-partition-columns": {"partition-columns": list},
    "update-metadata-snapshot-version": {"last-commit-version": int, "last-commit-timestamp-ms": int},
}
DERIVED = ("delta.minReaderVersion", "delta.minWriterVersion", "delta.feature.", "delta.lastUpdateVersion", "delta.lastCommit")


class Refusal(Exception):  # noqa: N818 - an answer
    def __init__(self, status, kind, message):
        super().__init__(message)
        self.status, self.kind = status, kind


def bad(message):
    return Refusal(400, "InvalidParameterValueException", message)


def check_members(value, required, optional=()):
    if not isinstance(value, dict):
        raise bad(f"expected an object, found {value!r}")
    known = {**required, **dict(optional)}
    if missing := required.keys() - value.keys():
        raise bad(f"missing {sorted(missing)}")
    if unknown := value.keys() - known.keys():
        raise bad(f"unknown {sorted(unknown)}")
    for name, member in value.items():
        if type(member) is not known[name]:
            raise bad(f"{name} is {member!r}")


def check_properties(properties):
    for key, value in properties.items():
        if not isinstance(value, str):
            raise bad(f"the property {key} is {value!r}")
        if key.startswith(DERIVED):
            raise bad(f"{key} is derived by the server")


def check_type(kind):
    if isinstance(kind, str):
        if kind not in PRIMITIVES and not kind.startswith(("decimal(", "timestamp_ntz", "variant")):
            raise bad(f"unknown type {kind!r}")
        return
    match kind.get("type"):
        case "array":
            check_members(kind, {"type": str, "element-type": type(kind.get("element-type")), "contains-null": bool})
            check_type(kind["element-type"])
        case "map":
            either = {name: type(kind.get(name)) for name in ("key-type", "value-type")}
            check_members(kind, {"type": str, "value-contains-null": bool, **either})
            check_type(kind["key-type"])
            check_type(kind["value-type"])
        case "struct":
            check_members(kind, {"type": str, "fields": list})
            for member in kind["fields"]:
                check_members(member, {"name": str, "type": type(member.get("type")), "nullable": bool, "metadata": dict})
                check_type(member["type"])
            names = [member["name"].lower() for member in kind["fields"]]
            if len(names) != len(set(names)):
                raise bad("two fields of one name")
        case other:
            raise bad(f"unknown type {other!r}")


def check_protocol(protocol):
    required = {"min-reader-version": int, "min-writer-version": int}
    check_members(protocol, required, {"reader-features": list, "writer-features": list})


@dataclass
class Unity:
    """The tables by ``(catalog, schema, table)``; and by token what its owner may do, None for everything."""

    schemas: set = field(default_factory=lambda: {("main", "sales")})
    tables: dict = field(default_factory=dict)
    tokens: dict = field(default_factory=lambda: {"secret-token": None})
    requests: list = field(default_factory=list)
    vend: Callable | None = None
    """Returns the config of a credential for an operation, and its expiry."""
    forbidden: set = field(default_factory=set)
    """Locations at which no table may be created."""
    failing: int = 0
    """How many of the next requests are answered with 500."""

    def answered(self, method, path, content, authorization):
        """Status and document of the response to a request."""
        token = (authorization or "").removeprefix("Bearer ")
        self.requests.append((method, path))
        try:
            document = self.answer(method, path, json.loads(content) if content else None, token)
        except Refusal as refusal:
            error = {"message": str(refusal), "type": refusal.kind, "code": refusal.status}
            return refusal.status, {"error": error}
        return 204 if document is None else 200, document

    def answer(self, method, path, body, token):  # noqa: C901 - the order of a server's checks
        if self.failing:
            self.failing -= 1
            raise Refusal(500, "InternalServerErrorException", "out of order")
        if token not in self.tokens:
            raise Refusal(401, "NotAuthorizedException", "the token is not known")
        allowed = self.tokens[token]
        path, _, query = path.partition("?")
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if method == "GET" and parts[:-1] == OLDER_ROOT:
            return self.listed(parts[-1], {key: value for key, _, value in (part.partition("=") for part in query.split("&"))})
        if parts[: len(ROOT)] != ROOT or parts[len(ROOT) + 1 :: 2][:2] != ["schemas", "tables"]:
            raise Refusal(404, "NotFoundException", f"no endpoint {path}")
        catalog, schema, *name = parts[len(ROOT) :: 2][:3]
        if allowed is not None and method not in allowed:
            raise Refusal(403, "PermissionDeniedException", f"alice lacks what {method} needs")
        if (catalog, schema) not in self.schemas:
            raise Refusal(404, "NoSuchSchemaException", f"no schema {catalog}.{schema}")
        if not name:
            if method != "POST":
                raise Refusal(404, "NotFoundException", f"no endpoint {method} {path}")
            return self.create(catalog, schema, body)
        key = (catalog, schema, name[0])
        if key not in self.tables:
            raise Refusal(404, "NoSuchTableException", f"no table {'.'.join(key)}")
        if parts[-1] == "credentials" and method == "GET":
            return self.credentials(self.tables[key], query, allowed)
        if method == "GET":
            return {"metadata": self.tables[key]}
        if method == "DELETE":
            del self.tables[key]
            return None
        return self.update(key, body)

    def listed(self, kind, query):
        """``listSchemas`` and ``listTables`` of the older API."""
        catalog = query.get("catalog_name")
        if kind == "schemas":
            found = [schema for of, schema in sorted(self.schemas) if of == catalog]
            return {"schemas": [{"name": name, "catalog_name": catalog, "full_name": f"{catalog}.{name}"} for name in found]}
        if kind != "tables":
            raise Refusal(404, "NotFoundException", f"no endpoint {kind}")
        place = (catalog, query.get("schema_name"))
        return {"tables": [older_form(key, table) for key, table in self.tables.items() if key[:2] == place]}

    def credentials(self, table, query, allowed):
        """``getTableCredentials``: what ``vend`` returns for locations on S3, nothing for others."""
        operation = {"operation=READ": "READ", "operation=READ_WRITE": "READ_WRITE"}.get(query)
        if operation is None:
            raise bad(f"the operation is {query}")
        if operation == "READ_WRITE" and allowed is not None and "POST" not in allowed:
            raise Refusal(403, "PermissionDeniedException", "alice lacks MODIFY")
        config, ends = ({}, int(time.time() * 1000) + 3_600_000) if self.vend is None else self.vend(operation)
        found = {"prefix": table["location"], "operation": operation, "config": config, "expiration-time-ms": ends}
        return {"storage-credentials": [found]}

    def create(self, catalog, schema, body):
        check_members(body, CREATE, CREATE_OPTIONAL)
        if body["table-type"] != "EXTERNAL":
            raise bad("managed tables begin as staging tables")
        check_type(body["columns"])
        check_protocol(body["protocol"])
        check_properties(body["properties"])
        key = (catalog, schema, body["name"])
        if body["location"] in self.forbidden:
            raise Refusal(403, "PermissionDeniedException", "alice lacks CREATE EXTERNAL TABLE there")
        if key in self.tables:
            raise Refusal(409, "AlreadyExistsException", f"{'.'.join(key)} exists")
        now = int(time.time() * 1000)
        self.tables[key] = {
            "etag": uuid.uuid4().hex,
            "table-type": "EXTERNAL",
            "table-uuid": str(uuid.uuid4()),
            "location": body["location"],
            "created-time": now,
            "updated-time": now,
            "columns": body["columns"],
            "partition-columns": body.get("partition-columns", []),
            "properties": {**body["properties"], **({"comment": body["comment"]} if body.get("comment") else {})},
            "last-commit-timestamp-ms": body["last-commit-timestamp-ms"],
        }
        self.derive(self.tables[key], body["protocol"])
        return {"metadata": self.tables[key]}

    def add_managed(self, name, table_id, location, feature="catalogManaged"):
        """Register a managed table under a name in the schema ``sales``."""
        now = int(time.time() * 1000)
        self.tables["main", "sales", name] = {
            "etag": uuid.uuid4().hex,
            "table-type": "MANAGED",
            "table-uuid": table_id,
            "location": location,
            "created-time": now,
            "updated-time": now,
            "columns": {"type": "struct", "fields": []},
            "properties": {f"delta.feature.{feature}": "supported", "io.unitycatalog.tableId": table_id},
        }

    def derive(self, table, protocol):
        for kind in ("reader", "writer"):
            table["properties"][f"delta.min{kind.title()}Version"] = str(protocol[f"min-{kind}-version"])
        for feature in protocol.get("writer-features", []):
            table["properties"][f"delta.feature.{feature}"] = "supported"

    def update(self, key, body):
        check_members(body, {"requirements": list, "updates": list})
        table = self.tables[key]
        if [requirement.get("type") for requirement in body["requirements"]][:1] != ["assert-table-uuid"]:
            raise bad("assert-table-uuid is always required")
        if body["requirements"][0].get("uuid") != table["table-uuid"]:
            raise Refusal(409, "UpdateRequirementConflictException", "another table")
        actions = [update.get("action") for update in body["updates"]]
        if not actions or len(actions) != len(set(actions)):
            raise bad(f"the actions are {actions}")
        for update in body["updates"]:
            if update["action"] == "update-metadata-snapshot-version" and table["table-type"] == "MANAGED":
                raise bad("update-metadata-snapshot-version is of external tables only")
            if update["action"] not in UPDATES:
                raise bad(f"unknown action {update['action']}")
            check_members(update, {"action": str, **UPDATES[update["action"]]})
        table["properties"] = dict(table["properties"])
        for update in body["updates"]:
            self.apply(table, update)
        table |= {"etag": uuid.uuid4().hex, "updated-time": int(time.time() * 1000)}
        return {"metadata": table}

    def apply(self, table, update):
        match update["action"]:
            case "set-properties":
                check_properties(update["updates"])
                table["properties"] |= update["updates"]
            case "remove-properties":
                check_properties(dict.fromkeys(update["removals"], ""))
                for key in update["removals"]:
                    table["properties"].pop(key, None)
            case "set-columns":
                check_type(update["columns"])
                table["columns"] = update["columns"]
            case "set-table-comment":
                table["properties"].pop("comment", None)
                table["properties"] |= {"comment": update["comment"]} if update["comment"] else {}
            case "set-protocol":
                check_protocol(update["protocol"])
                self.derive(table, update["protocol"])
            case "set-partition-columns":
                table["partition-columns"] = update["partition-columns"]
            case "update-metadata-snapshot-version":
                table |= {key: value for key, value in update.items() if key != "action"}


def older_form(key, table):
    """A table of primitive columns as ``TableInfo`` of the older API."""
    catalog, schema, name = key
    columns = [
        {
            "name": column["name"],
            "type_text": SQL_TYPES.get(column["type"], column["type"]),
            "type_name": column["type"].upper(),
            "type_json": json.dumps(column["type"]),
            "position": position,
            "nullable": column["nullable"],
        }
        for position, column in enumerate(table["columns"]["fields"])
    ]
    return {
        "catalog_name": catalog,
        "schema_name": schema,
        "name": name,
        "table_type": table["table-type"],
        "data_source_format": "DELTA",
        "storage_location": table["location"],
        "table_id": table["table-uuid"],
        "columns": columns,
    }


def serve(unity):
    """Start the server; returns its URL, and a function that stops it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, document = unity.answered(self.command, self.path, body, self.headers.get("Authorization"))
            content = b"" if document is None else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            if status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 - names of BaseHTTPRequestHandler

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def stop():
        server.shutdown()
        server.server_close()

    return f"http://127.0.0.1:{server.server_port}", stop
