"""Storage options whose credentials may expire before the work is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Options = Mapping[str, Any]


class RenewedOptions(Mapping[str, Any]):
    """Storage options that are always current: a holder opens each file with the credentials valid at that time.

    Two accesses may see different values: take ``current_options`` if several values must be consistent. Only their source is
    sent to other processes, and decides itself what is sent with it; no text form shows the options.
    """

    def __init__(self, source: Callable[[], Options], beside: Options) -> None:
        """Nothing is requested yet.

        Args:
            source: Returns the current options; called before each use, so it must be cheap while they are valid.
            beside: Further options, which do not expire; those of the source take precedence.
        """
        self._source, self._beside = source, beside

    @property
    def current(self) -> Options:
        """All current options. Raises as the source."""
        return {**self._beside, **self._source()}

    def __getitem__(self, name: str) -> Any:
        return self.current[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.current)

    def __len__(self) -> int:
        return len(self.current)

    def __reduce__(self) -> tuple[type[RenewedOptions], tuple[Callable[[], Options], Options]]:
        return type(self), (self._source, self._beside)


def current_options(options: Options) -> Options:
    """A consistent copy of the current options; options that do not expire are returned as they are."""
    return options.current if isinstance(options, RenewedOptions) else options
