"""Ports for servers of the tests."""

import secrets
import socket
from contextlib import suppress

RANGE = range(10_000, 30_000)
"""Below the ports that systems hand out by themselves: a JVM that asks for any port must not get one that was chosen here."""


def free_port() -> int:
    """A random port of this machine that has no listener."""
    while True:
        port = secrets.choice(RANGE)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
