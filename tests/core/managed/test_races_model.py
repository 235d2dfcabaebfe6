"""The model of ``tests/core/transaction/test_races_model.py`` on a catalog-managed table with two clients of one catalog.

Whatever commits are published at whatever time, whichever responses are lost and whichever client commits: every interleaving
is serializable, versions are ratified in order, and published commits equal the ratified ones.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.backoff import Backoff
from airflow_delta.core.delta_log import DeltaLog
from airflow_delta.core.log.file_names import commit_path
from airflow_delta.core.log.in_memory_managed_commits import InMemoryManagedCommits
from airflow_delta.core.log.managed_commits import Maintenance
from airflow_delta.core.log.managed_log_store import ManagedLogStore
from airflow_delta.core.storage.in_memory_log_store import InMemoryLogStore
from airflow_delta.core.transaction.operation import Operation
from tests.core.transaction.test_races_model import PROTOCOL, SCHEMA, DeletionVectors, Races

READERS = frozenset({"deletionVectors", "catalogManaged"})
MANAGED = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=READERS,
    writer_features=PROTOCOL.writer_features | READERS,
)


class LosingAnswers(InMemoryManagedCommits):
    """Ratifies, but loses the configured number of responses; records what it ratified."""

    def __init__(self):
        super().__init__(limit=3, permits=Maintenance)
        self.losses, self.record = 0, []

    def ratify(self, commit):
        super().ratify(commit)
        self.record.append(commit)
        if self.losses:
            self.losses -= 1
            raise TimeoutError("no answer")


class ManagedRaces(Races):
    @initialize(partitioned=st.booleans(), checkpoint_interval=st.sampled_from(["2", "100"]))
    def create(self, partitioned, checkpoint_interval):
        self.ticks = 0
        self.files, self.catalog = InMemoryLogStore(clock=self.clock), LosingAnswers()
        patience = Backoff(tries=3, sleep=lambda _: None)
        self.clients = [
            DeltaLog(ManagedLogStore(self.files, self.catalog), clock=self.clock, backoff=patience) for _ in range(2)
        ]
        self.log = self.clients[0]
        self.deletion_vectors = DeletionVectors()
        self.partition_columns = ("day",) if partitioned else ()
        self.log.create_transaction(
            Metadata(
                id="m",
                schema_string=SCHEMA,
                partition_columns=self.partition_columns,
                configuration={"delta.checkpointInterval": checkpoint_interval, "delta.enableInCommitTimestamps": "true"},
            ),
            MANAGED,
        ).commit(operation=Operation(name="CREATE TABLE"))
        self.contents, self.rows, self.progress = {}, [], 0

    @rule()
    def go_on_with_the_other_client(self):
        self.clients.reverse()
        self.log = self.clients[0]

    @rule()
    def publish(self):
        self.log.store.publish_ratified()

    @rule()
    def checkpoint(self):
        self.log.checkpoint()

    @rule(losses=st.integers(1, 2))
    def lose_answers(self, losses):
        self.catalog.losses = losses

    @invariant()
    def versions_are_ratified_in_order_and_published_as_ratified(self):
        if not hasattr(self, "rows"):
            return
        record = self.catalog.record
        assert [commit.version for commit in record] == list(range(1, len(record) + 1))
        is_published = [self.files.exists(commit_path(commit.version)) for commit in record]
        assert is_published == sorted(is_published, reverse=True)
        for commit, published in zip(record, is_published, strict=True):
            if published:
                staged = self.files.read(f"_delta_log/_staged_commits/{commit.file_name}")
                assert self.files.read(commit_path(commit.version)) == staged


ManagedRaces.TestCase.settings = settings(max_examples=8, stateful_step_count=25, deadline=None)
TestManagedRaces = ManagedRaces.TestCase


@pytest.mark.slow
def test_many_interleavings_are_serial():
    run_state_machine_as_test(ManagedRaces, settings=settings(max_examples=100, stateful_step_count=30, deadline=None))
