"""Storage that fails before or after any operation: the table reads as before or after, a repeated call finishes the work."""

import contextlib
import itertools

import pytest

from airflow_delta.core.errors import DeltaError
from airflow_delta.core.storage.local_log_store import LocalLogStore
from tests.core.faults.faulty_log_store import MOMENTS, Fault, FaultyLogStore, NoAnswerError
from tests.core.faults.scenarios import SCENARIOS, ScenarioCheck, discard

FOR_EVER = 1 << 30
IN_SAMPLE = 3  # faults per scenario
names = [scenario.name for scenario in SCENARIOS]


@pytest.fixture
def scenario_check(request, tmp_path):
    return ScenarioCheck(next(scenario for scenario in SCENARIOS if scenario.name == request.param), tmp_path)


def every_fault(scenario_check):
    """A failure at each operation of the uninterrupted run: of that one only, or of all from there on."""
    root = scenario_check.copy("counted")
    store = FaultyLogStore(LocalLogStore(str(root)))
    scenario_check.scenario.run(scenario_check.scenario.log(root, store))
    return [
        Fault(number, moment, lasts)
        for number, moment, lasts in itertools.product(range(len(store.operations)), MOMENTS, (1, 2, FOR_EVER))
    ]


def disturb(scenario_check, fault):
    root = scenario_check.copy("disturbed")
    store = FaultyLogStore(LocalLogStore(str(root)), fault)
    with contextlib.suppress(DeltaError, NoAnswerError):
        scenario_check.scenario.run(scenario_check.scenario.log(root, store))
    try:
        scenario_check.check_disturbed(root)
        scenario_check.check_finished(root)
    except Exception as error:
        raise AssertionError(
            f"{scenario_check.scenario.name}, {fault}, {store.operations[fault.number :][:1]}: {error}"
        ) from error
    discard(root)


@pytest.mark.parametrize("scenario_check", names[::2], indirect=True)
def test_a_failure_of_some_operations_leaves_the_table_as_before_or_after(scenario_check):
    faults = every_fault(scenario_check)
    step = max(1, len(faults) // IN_SAMPLE)
    for fault in faults[len(scenario_check.scenario.name) % step :: step]:
        disturb(scenario_check, fault)


@pytest.mark.slow
@pytest.mark.parametrize("scenario_check", names, indirect=True)
def test_a_failure_of_any_operation_leaves_the_table_as_before_or_after(scenario_check):
    for fault in every_fault(scenario_check):
        disturb(scenario_check, fault)
