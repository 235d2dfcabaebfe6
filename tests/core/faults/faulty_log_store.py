"""A store whose operations fail, or end the process, at a chosen moment."""

import os
import signal
from dataclasses import dataclass
from random import Random

BEFORE, AFTER = "before", "after"
MOMENTS = (BEFORE, AFTER)


class NoAnswerError(OSError):
    """The storage did not answer; it is unknown whether the operation happened."""


@dataclass
class Fault:
    """Which operations fail, when, and how.

    Attributes:
        number: The first failing operation, counted from 0.
        moment: ``before`` the operation happens, or ``after`` it (the result is lost).
        lasts: How many operations fail in a row.
        is_kill: Whether the process ends (SIGKILL) instead of seeing an error.
    """

    number: int
    moment: str
    lasts: int = 1
    is_kill: bool = False


class FaultyLogStore:
    """A ``LogStore`` around another one that counts operations, and fails at those that ``fault`` selects.

    Every read, listing, create, write, single deletion and closing of a stream is one operation.
    """

    def __init__(self, store, fault=None):
        self.store = store
        self.fault = fault
        self.operations = []

    def __getattr__(self, name):
        return getattr(self.store, name)  # everything that is not an operation

    def _operation(self, name, path, action):
        number = len(self.operations)
        self.operations.append(f"{name} {path}")
        self._fail(number, BEFORE)
        answer = action()
        self._fail(number, AFTER)
        return answer

    def _fail(self, number, moment):
        fault = self.fault
        if fault and fault.moment == moment and fault.number <= number < fault.number + fault.lasts:
            if fault.is_kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise NoAnswerError(f"no answer {moment} {self.operations[number]}")

    def read(self, path):
        return self._operation("read", path, lambda: self.store.read(path))

    def open_input(self, path):
        return self._operation("open", path, lambda: self.store.open_input(path))

    def exists(self, path):
        return self._operation("exists", path, lambda: self.store.exists(path))

    def write_if_absent(self, path, content):
        self._operation("create", path, lambda: self.store.write_if_absent(path, content))

    def write(self, path, content):
        self._operation("write", path, lambda: self.store.write(path, content))

    def open_output(self, path):
        return _FaultyStream(self, path)

    def list_from(self, directory, start=""):
        return iter(self._operation("list", f"{directory} from {start}", lambda: list(self.store.list_from(directory, start))))

    def list_all(self, directory="", start=""):
        return iter(self._operation("list all", directory, lambda: list(self.store.list_all(directory, start))))

    def delete(self, paths):
        """Delete one by one in arbitrary order: a failure leaves some deleted."""
        paths = list(paths)
        for path in Random(len(paths)).sample(paths, len(paths)):
            self._operation("delete", path, lambda path=path: self.store.delete([path]))


class _FaultyStream:
    """An output stream whose closing is the operation; before that, the file does not exist."""

    def __init__(self, faulty, path):
        self._faulty = faulty
        self._path = path
        self._stream = faulty.store.open_output(path)

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def close(self):
        if not self._stream.closed:
            self._faulty._operation("close", self._path, self._stream.close)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.close()
        else:
            self._stream.__exit__(kind, error, trace)
