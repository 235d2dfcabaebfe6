"""A test server for Unity Catalog's commits API, which strictly enforces what is published of it.

It follows ``GET`` and ``POST /delta/preview/commits`` of unitycatalog (``DeltaCommitsApi``, ``DeltaCommit``,
``DeltaCommitInfo``, ``DeltaMetadata``, ``DeltaGetCommits``) and the behavior of its server: at most ten commits not backfilled;
responses in pages of ten, newest first; a repeated request for the same file is no conflict; unknown tables and other locations
are refused, and so are requests with unknown members.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

PATH = "/api/2.1/unity-catalog/delta/preview/commits"
LIMIT = 10
INFO = {"version", "timestamp", "file_name", "file_size", "file_modification_timestamp"}
COMMIT = {"table_id", "table_uri", "commit_info", "latest_backfilled_version", "metadata", "uniform"}
GET = {"table_id", "table_uri", "start_version", "end_version"}
STATUS = {
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "TABLE_NOT_FOUND": 404,
    "COMMIT_VERSION_CONFLICT": 409,
    "RESOURCE_EXHAUSTED": 429,
    "COMMIT_STATE_UNKNOWN": 500,
}


class RefusalError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def require(condition, message):
    if not condition:
        raise RefusalError("INVALID_ARGUMENT", message)


@dataclass
class ManagedTable:
    """The catalog's record of a table.

    Attributes:
        commits: Those that are not backfilled, and the latest one.
        backfilled: The latest backfilled version.
        record: Every commit ever ratified, in order, for the tests.
        properties: The table properties set by the last commit that changed them.
    """

    uri: str
    commits: dict = field(default_factory=dict)
    backfilled: int = -1
    record: list = field(default_factory=list)
    properties: dict | None = None
    comment: str | None = None


class UnityServer:
    """Runs in threads of this process; ``tables`` are its managed tables by id, ``names`` is the server of their names."""

    def __init__(self, token=None, names=None):
        self.names = names
        self.token, self.tables, self.requests, self.faults = token, {}, [], []
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self._serve()

            def do_POST(self):
                self._serve()

            def do_DELETE(self):
                self._serve()

            def _serve(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, document = server.answer(self.command, self.path, dict(self.headers), body)
                if status is None:  # the response is lost
                    self.close_connection = True
                    return
                content = b"" if document is None else json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                if status != HTTPStatus.NO_CONTENT:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_arguments):
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 64
            daemon_threads = True

        self._http = Server(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self._http.shutdown()
        self._http.server_close()

    def add_table(self, table_id, uri):
        self.tables[table_id] = ManagedTable(uri.rstrip("/"))
        return self.tables[table_id]

    def answer(self, method, path, headers, body):
        """Each request uses up one of ``faults``: ``lost`` serves it and drops the response, a pair is the response."""
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, tuple):
            return fault
        headers = {key.lower(): value for key, value in headers.items()}
        if self.names is not None and path != PATH:
            return self.names.answered(method, path, body, headers.get("authorization"))
        try:
            document = self._served(method, path, headers, body)
            status = 200
        except RefusalError as refusal:
            status, document = STATUS[refusal.code], {"error_code": refusal.code, "message": str(refusal), "details": []}
        return (None, None) if fault == "lost" else (status, document)

    def _served(self, method, path, headers, body):
        require(path == PATH, f"no such path: {path}")
        if self.token is not None and headers.get("authorization") != f"Bearer {self.token}":
            raise RefusalError("UNAUTHENTICATED", "no valid token")
        require(headers.get("content-type") == "application/json", "expected application/json")
        document = json.loads(body)
        self.requests.append((method, document))
        with self._lock:
            return self._get(document) if method == "GET" else self._post(document)

    def _table(self, document):
        require(document.get("table_id") and document.get("table_uri"), "Field can not be empty: table_id, table_uri")
        table = self.tables.get(document["table_id"])
        if table is None:
            raise RefusalError("TABLE_NOT_FOUND", f"Table not found: {document['table_id']}")
        require(document["table_uri"].rstrip("/") == table.uri, "Table URI does not match the table path")
        return table

    def _get(self, document):
        require(document.keys() <= GET, f"unknown members: {document.keys() - GET}")
        table, start, end = self._table(document), document.get("start_version"), document.get("end_version")
        require(type(start) is int and start >= 0, "Field must be >=0: start_version")
        require(end is None or (type(end) is int and end >= start), "end_version must be >=start_version if set")
        if not table.commits:
            return {"commits": [], "latest_table_version": -1}
        last = max(start, min(table.commits)) + LIMIT - 1
        last = last if end is None else min(end, last)
        kept = [info for version, info in sorted(table.commits.items(), reverse=True) if version > table.backfilled]
        return {
            "commits": [info for info in kept if start <= info["version"] <= last],
            "latest_table_version": max(table.commits),
        }

    def _post(self, document):
        require(document.keys() <= COMMIT, f"unknown members: {document.keys() - COMMIT}")
        table, info, backfilled = self._table(document), document.get("commit_info"), document.get("latest_backfilled_version")
        metadata = document.get("metadata")
        require(info is not None or backfilled is not None, "Either commit_info or latest_backfilled_version must be defined")
        require(info is not None or metadata is None, "metadata shouldn't be set for backfill only commit")
        require(backfilled is None or type(backfilled) is int, "latest_backfilled_version must be a number")
        if info is None:
            require(table.commits, "Backfill request requires a prior commit")
            require(backfilled <= max(table.commits), "Should not backfill a version later than the last committed one")
        else:
            self._check_info(info)
            self._check_metadata(metadata, document["table_id"])
            if not self._ratified(table, info):
                return {}  # a replay
            if metadata is not None:
                table.comment = metadata.get("description", table.comment)
                table.properties = metadata.get("properties", {}).get("properties", table.properties)
        if backfilled is not None and table.commits:
            table.backfilled = max(table.backfilled, backfilled)
            latest = max(table.commits)
            table.commits = {
                version: kept for version, kept in table.commits.items() if version > table.backfilled or version == latest
            }
        return {}

    @staticmethod
    def _check_info(info):
        require(info.keys() == INFO, f"expected the members {sorted(INFO)}, found {sorted(info)}")
        for key in INFO - {"file_name"}:
            require(type(info[key]) is int and info[key] > 0, f"Field must be positive: {key}")
        name = info["file_name"]
        require(isinstance(name, str) and name and not {"/", "\\"} & set(name), "Field must be a single file name: file_name")

    @staticmethod
    def _check_metadata(metadata, table_id):
        if metadata is None:
            return
        require(metadata.keys() <= {"description", "properties", "schema"}, "unknown members of metadata")
        properties = (metadata.get("properties") or {}).get("properties")
        require(metadata.get("description") is not None or properties or metadata.get("schema"), "metadata changes nothing")
        if properties is not None:
            require(properties.get("io.unitycatalog.tableId") == table_id, "Property io.unitycatalog.tableId does not match")

    def _ratified(self, table, info):
        """Whether it became a commit now; False if it was one already."""
        version = info["version"]
        if table.commits:
            latest = max(table.commits)
            if version <= latest:
                self._settle(table, info)
                return False
            require(version == latest + 1, f"Commit version must be the next version after the latest commit {latest}")
            if len([kept for kept in table.commits if kept > table.backfilled]) >= LIMIT:
                raise RefusalError("RESOURCE_EXHAUSTED", "Max number of commits per table reached")
        table.commits[version] = info
        table.record.append(info)
        return True

    @staticmethod
    def _settle(table, info):
        """Handle a version that is taken: by the same commit, or by another one (a conflict)."""
        kept = table.commits.get(info["version"])
        if kept is not None:
            same = kept["file_name"] == info["file_name"]
        else:
            log = Path(urlsplit(table.uri).path) / "_delta_log"
            try:
                published = (log / f"{info['version']:020d}.json").read_bytes()
                same = (log / "_staged_commits" / info["file_name"]).read_bytes() == published
            except OSError as error:
                raise RefusalError("COMMIT_STATE_UNKNOWN", "Could not determine whether it is a replay") from error
        if not same:
            raise RefusalError("COMMIT_VERSION_CONFLICT", f"Commit version already accepted. Current: {max(table.commits)}")
