"""A proxy in front of an object store that makes up or drops responses as a test configures it."""

import http.client
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Fault:
    """What happens to the next matching requests: the proxy's own response, or none (``answer`` is None).

    ``arrives`` is whether the store receives the request nevertheless.
    """

    method: str
    contains: str
    times: int = 1
    answer: tuple[int, bytes] | None = None
    arrives: bool = False

    def fits(self, method, path):
        return self.times > 0 and method == self.method and self.contains in path


def s3_error(status, code, **members):
    """An error response as S3 sends it."""
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in {"Code": code, "Message": "no", **members}.items())
    return status, f'<?xml version="1.0" encoding="UTF-8"?><Error>{inner}</Error>'.encode()


@dataclass
class FaultyProxy:
    """The proxy's URL, the faults to come, and the requests seen."""

    url: str
    faults: list[Fault] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)
    dropped_headers: set[str] = field(default_factory=set)

    def count(self, method, contains=""):
        return sum(seen_method == method and contains in path for seen_method, path in self.seen)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _handle(self):
        proxy = self.server.proxy
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        proxy.seen.append((self.command, self.path))
        with self.server.lock:
            fault = next((fault for fault in proxy.faults if fault.fits(self.command, self.path)), None)
            if fault:
                fault.times -= 1
        if fault is None or fault.arrives:
            status, headers, body = self._forward(content)
        if fault is None:
            return self._answer(status, headers, body)
        if fault.answer is None:
            self.close_connection = True
            return self.connection.close()
        return self._answer(fault.answer[0], [("Content-Type", "application/xml")], fault.answer[1])

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _handle  # noqa: N815 - the base class calls them so

    def _forward(self, content):
        connection = http.client.HTTPConnection(self.server.target, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in self.server.proxy.dropped_headers}
        connection.request(self.command, self.path, body=content or None, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.getheaders(), body

    def _answer(self, status, headers, body):
        self.send_response(status)
        hidden = {"connection", "transfer-encoding", "server", "date"} | (
            set() if self.command == "HEAD" else {"content-length"}
        )
        for name, value in headers:
            if name.lower() not in hidden:
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def faulty_proxy(endpoint: str) -> Callable[[], FaultyProxy]:
    """A proxy for the store at this URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.target, server.lock = urlsplit(endpoint).netloc, threading.Lock()
    server.proxy = FaultyProxy(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.proxy
    server.shutdown()
    server.server_close()
