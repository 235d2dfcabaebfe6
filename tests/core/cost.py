"""Measures a piece of work in a separate process, which starts with everything imported."""

import multiprocessing
import resource
import time
from dataclasses import dataclass

MOST_SECONDS = 2.0
MOST_MEGABYTES = 300
"""The most that any file of less than 1 MB may cost."""

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    # Arrow imports pandas, if installed, with the first array that it makes from Python values.
    ["airflow_delta.core.delta_log", "airflow_delta.core.predicate", "pandas", "pyarrow.json", "tests.core.cost"]
)


@dataclass(frozen=True)
class Cost:
    """CPU seconds, additional megabytes, and the error that the work ended with (None without one)."""

    seconds: float
    megabytes: float
    error: BaseException | None


def cost_of(work, *arguments, timeout=60):
    """Run ``work``, a function of a module, and return its cost."""
    receiver, sender = _SERVER.Pipe(duplex=False)
    process = _SERVER.Process(target=_measure, args=(sender, work, arguments))
    process.start()
    try:
        if not receiver.poll(timeout):
            raise TimeoutError(f"not done within {timeout} s")
        return Cost(*receiver.recv())
    finally:
        process.kill()
        process.join()


def assert_bounded(cost):
    assert cost.seconds <= MOST_SECONDS, f"{cost.seconds:.1f} s of CPU, ended with {cost.error!r}"
    assert cost.megabytes <= MOST_MEGABYTES, f"{cost.megabytes:.0f} MB, ended with {cost.error!r}"


def _measure(sender, work, arguments):
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))  # address space: a failing test ends only itself
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    error = None
    try:
        work(*arguments)
    except Exception as caught:  # noqa: BLE001 - the caller checks it
        error = caught
    seconds = time.process_time() - started
    sender.send((seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, error))
