"""Substitutes for features that some Airflow versions lack behave like the features."""

import asyncio
from threading import Barrier

from asgiref.sync import async_to_sync

from airflow_delta.hooks.airflow_features import ArgNotSet, run_in_thread


def test_a_thread_of_a_trigger_asks_airflow_through_the_loop_that_has_started_it():
    async def current_loop():
        return asyncio.get_running_loop()

    async def trigger():
        return await run_in_thread(async_to_sync(current_loop)) is asyncio.get_running_loop()

    assert asyncio.run(trigger())


def test_functions_run_in_threads_side_by_side():
    async def meet():
        barrier = Barrier(2)
        return await asyncio.gather(run_in_thread(barrier.wait, 60), run_in_thread(barrier.wait, 60))

    assert sorted(asyncio.run(meet())) == [0, 1]


def test_what_stands_for_no_value_is_airflows_own():
    assert ArgNotSet.__module__.startswith("airflow.")
