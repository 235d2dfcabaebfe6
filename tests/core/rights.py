"""Directories without read permission, even if the tests run as root."""

import os
from contextlib import contextmanager


@contextmanager
def as_a_user_without_rights(path):
    """Drop root's privileges, which override file permissions."""
    path.chmod(0)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        path.chmod(0o700)
