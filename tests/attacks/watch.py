"""Detects access to what must not be touched: opened files by inotify, connections by a listening server."""

import ctypes
import os
import socket
import struct
import threading
from pathlib import Path

_ACCESS, _MODIFY, _ATTRIBUTES, _OPEN = 0x1, 0x2, 0x4, 0x20
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_NON_BLOCKING = 0x800
_EVENT = struct.Struct("iIII")
_NAMES = {
    _ACCESS: "read",
    _MODIFY: "written",
    _ATTRIBUTES: "changed",
    _OPEN: "opened",
    _MOVED_FROM: "moved away",
    _MOVED_TO: "moved here",
    _CREATE: "created",
    _DELETE: "deleted",
}


class WatchedDirectory:
    """Records what any process does to the files below a directory, by Linux's inotify."""

    def __init__(self, directory):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(_NON_BLOCKING)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._directories = {}
        for path in [directory, *(entry for entry in Path(directory).rglob("*") if entry.is_dir())]:
            watch = self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), sum(_NAMES))
            if watch < 0:
                raise OSError(ctypes.get_errno(), f"inotify_add_watch {path}")
            self._directories[watch] = str(path)

    def events(self):
        """The events since the last call, such as ``opened /…/secret.parquet``."""
        found = set()
        while True:
            try:
                content = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                return sorted(found)
            position = 0
            while position < len(content):
                watch, mask, _, length = _EVENT.unpack_from(content, position)
                position += _EVENT.size
                name = content[position : position + length].rstrip(b"\0").decode()
                position += length
                acts = [act for bit, act in _NAMES.items() if mask & bit]
                found |= {f"{act} {self._directories.get(watch, '?')}/{name}" for act in acts}

    def close(self):
        os.close(self._descriptor)


class Sink:
    """A server that counts connections and never answers."""

    def __init__(self):
        self._server = socket.create_server(("127.0.0.1", 0))
        self._heard = []
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def address(self):
        """``host:port``."""
        host, port = self._server.getsockname()
        return f"{host}:{port}"

    def _listen(self):
        while True:
            try:
                connection, peer = self._server.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(0.2)
                try:
                    said = connection.recv(200)
                except OSError:
                    said = b""
            self._heard.append(f"connection from {peer}: {said!r}")

    def events(self):
        """The connections since the last call."""
        heard, self._heard = self._heard, []
        return heard

    def close(self):
        self._server.close()
