"""All attacks by name. Each is a function that makes a hostile table."""

from tests.attacks.catalog import expressions, files, logs, paths

ATTACKS = paths.ATTACKS | logs.ATTACKS | files.ATTACKS | expressions.ATTACKS
"""Name to a function that takes a ``HostileTable`` and makes it hostile."""
