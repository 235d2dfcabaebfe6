"""A session in which ``format("delta")`` is registered."""

import pytest

from airflow_delta.spark import register


@pytest.fixture
def delta(spark):
    """The session, registered."""
    register(spark)
    return spark
