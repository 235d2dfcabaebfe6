"""Storage that fails before or after any operation: the table reads as before or after, a repeated call finishes the work."""

import contextlib
import itertools

import pytest

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.storage.local_log_store import LocalLogStore
from tests.core.faults.faulty_log_store import MOMENTS, Fault, FaultyLogStore, NoAnswerError
from tests.core.faults.scenarios import SCENARIOS, Judged, discard

FOR_EVER = 1 << 30
IN_SAMPLE = 3  # faults of each scenario
names = [scenario.name for scenario in SCENARIOS]


@pytest.fixture
def judged(request, tmp_path):
    return Judged(next(scenario for scenario in SCENARIOS if scenario.name == request.param), tmp_path)


def every_fault(judged):
    """A failure at each operation of the undisturbed run: of this one only, or of all from there on."""
    root = judged.copy("counted")
    store = FaultyLogStore(LocalLogStore(str(root)))
    judged.scenario.run(judged.scenario.log(root, store))
    return [
        Fault(number, moment, lasts)
        for number, moment, lasts in itertools.product(range(len(store.operations)), MOMENTS, (1, 2, FOR_EVER))
    ]


def disturb(judged, fault):
    root = judged.copy("disturbed")
    store = FaultyLogStore(LocalLogStore(str(root)), fault)
    with contextlib.suppress(DeltaError, NoAnswerError):
        judged.scenario.run(judged.scenario.log(root, store))
    try:
        judged.check_disturbed(root)
        judged.check_finished(root)
    except Exception as error:
        raise AssertionError(f"{judged.scenario.name}, {fault}, {store.operations[fault.number :][:1]}: {error}") from error
    discard(root)


@pytest.mark.parametrize("judged", names, indirect=True)
def test_a_failure_of_some_operations_leaves_the_table_as_before_or_after(judged):
    faults = every_fault(judged)
    step = max(1, len(faults) // IN_SAMPLE)
    for fault in faults[len(judged.scenario.name) % step :: step]:
        disturb(judged, fault)


@pytest.mark.slow
@pytest.mark.parametrize("judged", names, indirect=True)
def test_a_failure_of_any_operation_leaves_the_table_as_before_or_after(judged):
    for fault in every_fault(judged):
        disturb(judged, fault)
