"""A watched directory beside the table, and a server that must receive no connection."""

import sys

import pytest

from tests.attacks.hostile_table import make_outside
from tests.attacks.watch import Sink, WatchedDirectory


@pytest.fixture
def sink():
    """A server that counts connections."""
    server = Sink()
    yield server
    server.close()


@pytest.fixture
def neighbor(tmp_path):
    """The directory beside the table, watched."""
    if sys.platform != "linux":
        pytest.skip("inotify is Linux's")
    watched = WatchedDirectory(make_outside(tmp_path))
    yield watched
    watched.close()
