"""Storage options whose keys end before the work may that needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Options = Mapping[str, Any]


class RenewedOptions(Mapping[str, Any]):
    """Storage options that are those of the moment: whoever keeps them opens each file later by the keys that hold then.

    Each access may find others: take ``current_options`` where several are to fit together. They travel to other processes by
    their source alone, which says itself what goes with it; no text shows them.
    """

    def __init__(self, source: Callable[[], Options], beside: Options) -> None:
        """Nothing is requested yet.

        Args:
            source: Those that hold now; called before each use, so that it has to be cheap while they hold.
            beside: The others, which do not end; the source's go before them.
        """
        self._source, self._beside = source, beside

    @property
    def current(self) -> Options:
        """All that hold now. Raises as the source."""
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
    """The options that hold now, all of one moment; options that do not end, as they are."""
    return options.current if isinstance(options, RenewedOptions) else options
