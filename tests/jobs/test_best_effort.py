"""A failure after a commit is only a warning, without secrets and control characters."""

import pytest

from airflow_delta.core.errors import CorruptLogError
from airflow_delta.jobs.best_effort import BestEffort

CORRUPT = CorruptLogError(table="t", file="f", detail="d")


@pytest.mark.parametrize(
    ("error", "warning"),
    [
        (KeyError("x"), "the page failed: KeyError: 'x'"),
        (RuntimeError("password=hunter2 \x1b[2J\n"), r"the page failed: RuntimeError: password=*** \x1b[2J\n"),
        (RecursionError("deep"), "the page failed: RecursionError: deep"),
        (
            CorruptLogError(table="t", file="f", detail="d"),
            f"the page failed: {CorruptLogError(table='t', file='f', detail='d')}",
        ),
        (ValueError("x" * 5_000), "the page failed: ValueError: xxx"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_becomes_a_warning_of_one_short_line(error, warning, caplog):
    behind = BestEffort()
    with behind.attempt("the page"):
        raise error
    (found,) = behind.warnings
    assert found.startswith(warning)
    assert len(found) < 600
    assert caplog.messages == [found]


def test_what_succeeds_leaves_no_warning_and_earlier_ones_are_cleaned():
    behind = BestEffort(["token=hunter2hunter2 \x1b"])
    with behind.attempt("the page"):
        pass
    assert behind.warnings == [r"token=*** \x1b"]


def test_an_end_from_outside_is_no_failure():
    with pytest.raises(KeyboardInterrupt), BestEffort().attempt("the page"):
        raise KeyboardInterrupt
