"""Fills the marked regions of the pages from the code.

As a hook of mkdocs it fills all of them while the site is built. Run by hand it writes those into the pages that are kept in
the repository, and tests/project hold these up to date.
"""  # noqa: INP001 - mkdocs loads it by its path

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

from airflow.sdk import BaseOperator

from airflow_delta import notifications, operators, sensors
from airflow_delta.core.table_features.feature import FEATURES
from airflow_delta.core.table_features.support import PARTLY_READABLE, READABLE, WRITABLE
from airflow_delta.get_provider_info import get_provider_info
from airflow_delta.hooks import delta as hooks
from airflow_delta.operators import DeltaJobOperator
from airflow_delta.spark.supported_features import SCANNABLE, SUPPORTED
from airflow_delta.triggers import commit_event

PAGES = Path(__file__).parents[1]
FEATURE_TESTS = Path(__file__).with_name("feature_tests.toml")
REGISTRY_FILE = PAGES.parent / ".airflow-registry.yaml"
REGISTRY_MODULES = {
    "operators": (operators, [name for name in operators.__all__ if name.endswith("Operator")]),
    "sensors": (sensors, sensors.__all__),
    "hooks": (hooks, ["DeltaHook"]),
    "triggers": (commit_event, ["DeltaCommitEventTrigger"]),
    "notifications": (notifications, notifications.__all__),
}
REGION = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
COLORS = ("#3f51b5", "#b0bec5")
EXAMPLE = re.compile(r"::\n\n((?: {4}.*\n|\n)+)")
LITERAL = re.compile(r"``(.+?)``(?!`)")


def feature_table() -> Iterator[str]:
    """Two rows for each feature that the core knows of: what the core does with it, and what Spark does."""
    tests = feature_tests()
    yield "| feature | in | reads | test | writes | test |"
    yield "|---|---|---|---|---|---|"
    for name in sorted(FEATURES, key=str.lower):
        held_by = [f"`{test}`" for test in tests[name]]
        for place, cells, held in zip(("core", "Spark"), batched(feature_cells(name)), batched(held_by), strict=True):
            yield f"| `{name}` | {place} | {cells[0]} | {held[0]} | {cells[1]} | {held[1]} |"


def feature_cells(name: str) -> list[str]:
    """Whether the core reads and writes tables with a feature, and whether Spark reads and writes them."""
    sets = (READABLE, WRITABLE, SCANNABLE, SUPPORTED)
    partly = "without its columns" if name in PARTLY_READABLE else "yes"
    free = (not FEATURES[name].for_readers, False) * 2
    words = (partly, "yes") * 2
    return [word if name in known or is_free else "no" for known, is_free, word in zip(sets, free, words, strict=True)]


def feature_tests() -> dict[str, list[str]]:
    """The test that holds each of these cells, by feature: a file below tests/ and a function in it."""
    held = tomllib.loads(FEATURE_TESTS.read_text())
    return {feature: [held["tests"][test] for test in tests] for feature, tests in held["features"].items()}


def batched(cells: Sequence[str]) -> list[Sequence[str]]:
    """The cells in pairs."""
    return [cells[:2], cells[2:]]


def argument_guide() -> Iterator[str]:
    """A section for each operator and sensor, beginning with what all operators share."""
    packages = [(package.__name__, getattr(package, name)) for package in (operators, sensors) for name in package.__all__]
    classes = [(package, task) for package, task in packages if inspect.isclass(task) and issubclass(task, BaseOperator)]
    shared = ("airflow_delta.operators", DeltaJobOperator)
    for package, task in [shared, *(found for found in classes if found != shared)]:
        yield from section(package, task)


def section(package: str, task: type[BaseOperator]) -> Iterator[str]:
    """What the docstring of an operator says, its arguments as a table with their defaults."""
    text, arguments = described(task)
    yield f"## `{task.__name__}`\n\n`from {package} import {task.__name__}`\n"
    yield EXAMPLE.sub(lambda example: f":\n\n```python\n{dedent(example[1]).strip()}\n```\n\n", as_markdown(text))
    if issubclass(task, DeltaJobOperator) and task is not DeltaJobOperator:
        yield "It also takes [the arguments that all operators share](#deltajoboperator).\n"
    for base in bases_without_section(task):
        arguments |= {name: meaning for name, meaning in described(base)[1].items() if name not in arguments}
    if not arguments:
        return
    yield "| argument | default | meaning |\n|---|---|---|"
    defaults = {name: parameter.default for base in reversed(task.__mro__) for name, parameter in parameters(base).items()}
    for name, meaning in arguments.items():
        default = defaults.get(name, inspect.Parameter.empty)
        shown = "" if default is inspect.Parameter.empty or " object at " in repr(default) else f"`{default!r}`"
        yield f"| `{name}` | {cell(shown)} | {cell(meaning)} |"
    yield ""


def described(task: type) -> tuple[str, dict[str, str]]:
    """The docstring of an operator without its arguments, and the meaning of each argument that it describes."""
    text, _, listed = (inspect.getdoc(task) or "").partition("\nArgs:\n")
    arguments = re.findall(r"^(\w.*?)(?=^\w|\Z)", dedent(listed).replace("**kwargs", "kwargs"), re.DOTALL | re.MULTILINE)
    return text, {name: meaning for name, _, meaning in (argument.partition(":") for argument in arguments)}


def bases_without_section(task: type[BaseOperator]) -> list[type]:
    """The bases that are in no section of the guide, nor bases of one that is: what they add is listed with each operator."""
    listed = [getattr(package, name) for package in (operators, sensors) for name in package.__all__]
    covered = {base for listed_base in task.__mro__[1:] if listed_base in listed for base in listed_base.__mro__}
    return [base for base in task.__mro__[1:] if base not in covered and issubclass(base, BaseOperator) and parameters(base)]


def parameters(base: type) -> dict[str, inspect.Parameter]:
    """The parameters that a class adds to those of its bases."""
    return dict(inspect.signature(base.__init__).parameters) if "__init__" in vars(base) else {}


def cell(text: str) -> str:
    """Text as it may stand in a cell of a table."""
    return as_markdown(" ".join(text.split())).replace("|", "\\|")


def as_markdown(text: str) -> str:
    """Text with the literals of docstrings as Markdown has them, whose ends need a space where backquotes are inside."""
    return LITERAL.sub(lambda literal: f"`` {literal[1].strip()} ``" if "`" in literal[1] else f"`{literal[1]}`", text)


def benchmark_chart(benchmarks: str) -> str:
    """The comparison with Delta-Spark of the benchmarks' page as an SVG: two bars for each statement."""
    table = benchmarks.partition("## Beside Delta-Spark")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| ([\d.]+) \| ([\d.]+) \|$", table, re.MULTILINE)
    scale = 440 / max(float(seconds) for row in rows for seconds in row[1:])
    bars = []
    for number, (name, *both) in enumerate(rows):
        top = 52 + number * 40
        bars.append(f'  <text x="250" y="{top + 20}" text-anchor="end">{name}</text>')
        for offset, seconds, color in zip((0, 15), both, COLORS, strict=True):
            width = float(seconds) * scale
            bars.append(f'  <rect x="262" y="{top + offset}" width="{width:.0f}" height="13" fill="{color}"/>')
            bars.append(f'  <text x="{268 + width:.0f}" y="{top + offset + 11}" font-size="12">{seconds} s</text>')
    height = 62 + len(rows) * 40
    legend = [
        f'  <rect x="{x}" y="18" width="13" height="13" fill="{color}"/><text x="{x + 20}" y="30">{name}</text>'
        for x, color, name in zip((262, 400), COLORS, ("airflow-delta", "Delta-Spark 4.4"), strict=True)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 {height}" font-family="Helvetica, Arial, sans-serif" '
    back = f'  <rect width="780" height="{height}" fill="#ffffff"/>'
    return "\n".join([head + 'font-size="14">', back, *legend, *bars, "</svg>"]) + "\n"


def airflow_registry() -> str:
    """What the registry of Airflow's providers reads of a provider outside of Airflow's repository (astronomer-cosmos#2387)."""
    info = get_provider_info()
    lines = [
        "# For the registry of Airflow's providers; written by docs/site/generate.py.",
        f"package-name: {info['package-name']}",
        f"display-name: {info['name']}",
        f"description: {json.dumps(info['description'])}",
    ]
    for kind, (module, names) in REGISTRY_MODULES.items():
        lines += ["", f"{kind}:"]
        for name in names:
            summary = (inspect.getdoc(getattr(module, name)) or "").partition("\n")[0].replace("``", "`").rstrip(".")
            lines += [f"  - module: {module.__name__}.{name}", f"    description: {json.dumps(summary, ensure_ascii=False)}"]
    return "\n".join(lines) + "\n"


REGIONS: dict[str, Callable[[], Iterator[str]]] = {"features": feature_table, "arguments": argument_guide}
KEPT = frozenset({"features"})
"""Those that the pages in the repository hold; docstrings change too often for the others."""


def generated(text: str, names: frozenset[str] = KEPT) -> str:
    """The page with the named regions written anew."""

    def written(region: re.Match[str]) -> str:
        return region[1] + "\n".join(REGIONS[region[2]]()) + "\n" + region[3] if region[2] in names else region[0]

    return REGION.sub(written, text)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs with the text of each page."""
    return generated(markdown, frozenset(REGIONS))


if __name__ == "__main__":
    for page in PAGES.glob("*.md"):
        page.write_text(generated(page.read_text()))
    REGISTRY_FILE.write_text(airflow_registry())
    (PAGES / "images" / "benchmarks.svg").write_text(benchmark_chart((PAGES / "benchmarks.md").read_text()))
