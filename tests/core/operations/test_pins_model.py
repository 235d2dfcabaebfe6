"""Whatever runs pin, release and pin again: vacuums and log cleanups keep what is pinned, and nothing else for it."""

from contextlib import suppress
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_delta.core.errors import VacuumLiteImpossibleError, VersionNotFoundError
from airflow_delta.core.log.log_segment import list_log
from airflow_delta.core.operations.pinning import pin_versions
from airflow_delta.core.operations.pins import read_pins, release
from airflow_delta.core.statements import PinnedTable, PinStatement, Version
from tests.core.builders import add
from tests.core.operations.aged_table import AgedTable

DAY = 86_400_000
RETENTION = 2 * DAY
KEPT = 5 * DAY


@dataclass
class Held:
    """A pin as the model knows it: its version's files that were there when it was made."""

    version: int
    files: set
    expires: int


class Model:
    """A table whose files have names of their own, the files of each of its versions, and the pins."""

    def __init__(self):
        self.table = AgedTable()
        self.files = {0: frozenset()}
        self.removed = {}
        self.held = {}

    @property
    def live(self):
        return self.files[max(self.files)]

    def commit(self, live, *actions):
        self.files[self.table.commit(*actions)] = frozenset(live)

    def take(self, step, which, days):
        self.table.now += days * DAY + 1  # no two moments are a whole number of days apart
        getattr(self, step)(which)
        for holder in [name for name, pin in self.held.items() if pin.expires <= self.table.now]:
            del self.held[holder]
        self.check_pins()

    def add(self, _):
        path = self.table.file(f"f{len(self.files)}")
        self.commit(self.live | {path}, add(path))

    def remove(self, which):
        if self.live:
            path = sorted(self.live)[which % len(self.live)]
            self.removed[path] = self.table.now
            self.commit(self.live - {path}, self.table.remove(path))

    def pin(self, which):
        """The run ``which`` pins some version, or again what it had pinned, as a clear does."""
        holder = f"run{which % 3}"
        version = self.held[holder].version if holder in self.held else (which * 7) % len(self.files)
        statement = PinStatement(
            tables=[PinnedTable(alias="t", table="t", as_of=Version(version))], id=holder, keep_for_hours=KEPT / 3_600_000
        )
        if version < list_log(self.table.store).earliest_readable_version():
            with pytest.raises(VersionNotFoundError):
                pin_versions(statement, lambda _: self.table.log, {"run_id": holder})
            return
        pin_versions(statement, lambda _: self.table.log, {"run_id": holder})
        self.held[holder] = Held(version, set(self.files[version]) & self.table.files(), self.table.now + KEPT)

    def end(self, which):
        holder = f"run{which % 3}"
        release(self.table.store, [pin for pin in read_pins(self.table.store) if pin.id == holder])
        self.held.pop(holder, None)

    def clean_up(self, _):
        self.table.log.checkpoint()
        self.table.log.cleanup_log()

    def lite(self, _):
        with suppress(VacuumLiteImpossibleError):
            self._vacuum(lite=True)

    def full(self, _):
        self._vacuum(lite=False)

    def _vacuum(self, *, lite):
        before, cutoff = self.data(), self.table.now - RETENTION
        reported = self.table.log.vacuum(RETENTION / 3_600_000, enforce_retention=False, lite=lite)
        unexpired = {name: pin for name, pin in self.held.items() if pin.expires > self.table.now}
        assert {pin.id: pin.version for pin in reported.pins} == {name: pin.version for name, pin in unexpired.items()}
        pinned = set().union(*(pin.files for pin in unexpired.values()))
        recent = {path for path, time in self.removed.items() if time >= cutoff}
        assert self.data() == before & (self.live | recent | pinned)
        while max(self.files) < self.table.log.refresh().version:  # its begin and its end are versions too
            self.files[max(self.files) + 1] = self.live
        self.table.version = max(self.files)

    def data(self):
        return {path for path in self.table.files() if not path.startswith("_")}

    def check_pins(self):
        for pin in self.held.values():
            named = self.table.log.snapshot(pin.version).files()["path"].to_pylist()
            assert set(named) == self.files[pin.version]
            assert pin.files <= self.data()


STEPS = st.tuples(
    st.sampled_from(["add", "add", "remove", "remove", "pin", "pin", "end", "clean_up", "lite", "full"]),
    st.integers(0, 20),
    st.sampled_from([0, 0, 1, 3, 35]),
)


@given(st.lists(STEPS, max_size=25))
@example([("add", 0, 0), ("pin", 1, 0), ("remove", 0, 0), ("add", 0, 0), ("full", 0, 3), ("lite", 0, 0), ("full", 0, 35)])
@example([("add", 0, 0), ("remove", 0, 0), ("pin", 1, 0), ("lite", 0, 3), ("end", 1, 0), ("lite", 0, 0)])
@example([("add", 0, 0), ("clean_up", 0, 0), ("add", 0, 0), ("clean_up", 0, 0), ("pin", 1, 35), ("clean_up", 0, 0)])
@settings(max_examples=60)
def test_a_pinned_version_stays_whole_and_a_pin_that_ended_keeps_nothing(steps):
    model = Model()
    for step in steps:
        model.take(*step)
    model.take("full", 0, 35)
