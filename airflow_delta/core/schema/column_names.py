"""Resolution of column names.

Spark ignores case by Java's ``toLowerCase(Locale.ROOT)``, which equals Python's ``lower`` for every character that both know:
``straße`` and ``STRASSE`` are different names (``casefold`` would make them equal), and so are ``İ`` and ``i``.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_delta.core.errors import AmbiguousColumnError


def name_key(name: str) -> str:
    """The form of a name for comparisons that ignore case."""
    return name.lower()


def field_key(name: str) -> str:
    """The form of a name for comparisons of struct fields, where Spark treats more names as equal than for columns.

    ``i`` with and without dot are equal, and so are short and long ``s``. Java: ``String.equalsIgnoreCase``, which compares
    character by character, also in upper case.
    """
    uppers = (upper if len(upper := letter.upper()) == 1 else letter for letter in name)
    return "".join(upper.lower()[0] for upper in uppers)


def find_name(name: str, names: Sequence[str]) -> int | None:
    """The position of a name: an exact match, or else the only one that differs just in case; None without a match.

    Raises:
        AmbiguousColumnError: Several names differ just in case.
    """
    if name in names:
        return names.index(name)
    key = name_key(name)
    found = [position for position, other in enumerate(names) if name_key(other) == key]
    if len(found) > 1:
        raise AmbiguousColumnError(column=name, candidates=tuple(names[position] for position in found))
    return found[0] if found else None
