"""Which column a name means.

Spark resolves names in any case by Java's ``toLowerCase(Locale.ROOT)``, which is Python's ``lower`` for every character that
both know: ``straße`` and ``STRASSE`` are two names (``casefold`` makes them one), ``İ`` and ``i`` as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_delta.core.errors import AmbiguousColumnError


def name_key(name: str) -> str:
    """What names are compared by where their case does not count."""
    return name.lower()


def field_key(name: str) -> str:
    """What names are compared by where Spark looks for a field of a type, and not for a column: there it takes more for one.

    The ``i`` with and without a dot are, and the short and the long ``s``. Java: ``String.equalsIgnoreCase``, which compares
    letter by letter, in upper case, too.
    """
    uppers = (upper if len(upper := letter.upper()) == 1 else letter for letter in name)
    return "".join(upper.lower()[0] for upper in uppers)


def find_name(name: str, names: Sequence[str]) -> int | None:
    """The position of the name: of the very same, or else of the only one that differs in case; None where there is none.

    Raises:
        AmbiguousColumnError: The name differs in case from more than one.
    """
    if name in names:
        return names.index(name)
    key = name_key(name)
    found = [position for position, other in enumerate(names) if name_key(other) == key]
    if len(found) > 1:
        raise AmbiguousColumnError(column=name, candidates=tuple(names[position] for position in found))
    return found[0] if found else None
