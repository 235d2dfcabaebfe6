"""Writes what docs/ shows of the code between its marks: `make docs` runs it, and tests/project hold the pages up to date."""  # noqa: INP001

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from airflow_delta.core.table_features.feature import FEATURES
from airflow_delta.core.table_features.support import READABLE, WRITABLE
from airflow_delta.spark import supported_features as supported

PAGES = Path(__file__).parents[1]
REGION = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def feature_table() -> Iterator[str]:
    """One row for each feature that the core knows of."""
    yield "| feature | core reads | core writes | Spark reads | Spark writes |"
    yield "|---|---|---|---|---|"
    for name, feature in sorted(FEATURES.items()):
        sets = (READABLE, WRITABLE, supported._SCANNED, supported._WRITTEN)  # noqa: SLF001 - the page shows what they say
        free = (not feature.for_readers, False, not feature.for_readers, False)
        cells = ["yes" if name in known or is_free else "no" for known, is_free in zip(sets, free, strict=True)]
        yield f"| `{name}` | {' | '.join(cells)} |"


REGIONS: dict[str, Callable[[], Iterator[str]]] = {"features": feature_table}


def generated(text: str) -> str:
    """The page with its marked regions written anew."""
    return REGION.sub(lambda region: region[1] + "\n".join(REGIONS[region[2]]()) + "\n" + region[3], text)


if __name__ == "__main__":
    for page in PAGES.glob("*.md"):
        page.write_text(generated(page.read_text()))
