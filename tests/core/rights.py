"""Directories that one may not look into, also where tests run as root."""

import os
from contextlib import contextmanager


@contextmanager
def as_a_user_without_rights(path):
    """Root may do everything."""
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
