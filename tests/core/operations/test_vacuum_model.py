"""Whatever happened to a table, no vacuum deletes what a version within the retention reads."""

import uuid

from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_delta.core.data_files.z85 import z85_encoded
from tests.core.builders import add
from tests.core.operations.aged_table import AgedTable

DAY = 86_400_000


def marked(number):
    """A deletion vector as the log names it, and its file."""
    name = uuid.UUID(int=number)
    deletion_vector = {
        "storageType": "u",
        "pathOrInlineDv": z85_encoded(name.bytes),
        "offset": 1,
        "sizeInBytes": 4,
        "cardinality": 1,
    }
    return deletion_vector, f"deletion_vector_{name}.bin"


def deletion_vector(number):
    return {} if number is None else {"deletionVector": marked(number)[0]}


def files_of(state):
    return set(state) | {marked(number)[1] for number in state.values() if number is not None}


class Model:
    """A table with a history, and what each of its versions needs: paths with the numbers of their deletion vectors."""

    def __init__(self):
        self.table = AgedTable()
        self.live = {}
        self.versions = [(0, {})]

    def take(self, step, number, which, days):
        self.table.now += days * DAY
        path = sorted(self.live)[which % len(self.live)] if self.live else None
        if path or step not in {"remove", "mark"}:
            getattr(self, step)(number=number, which=which, path=path)
        self.versions.append((self.table.now, dict(self.live)))

    def add(self, number, **_):
        self.table.commit(add(self.table.file(f"f{number}")))
        self.live[f"f{number}"] = None

    def remove(self, path, **_):
        self.table.commit(self.table.remove(path, **deletion_vector(self.live.pop(path))))

    def mark(self, number, path, **_):
        self.table.file(marked(number)[1])
        self.table.commit(self.table.remove(path, **deletion_vector(self.live[path])), add(path, **deletion_vector(number)))
        self.live[path] = number

    def restore(self, which, **_):
        wanted = self.versions[which % len(self.versions)][1]
        back = {path: mark for path, mark in wanted.items() if path not in self.live}
        if back and files_of(back) <= self.table.files():
            self.table.commit(*(add(path, **deletion_vector(mark)) for path, mark in back.items()))
            self.live |= back

    def stray(self, number, **_):
        self.table.file(f"stray{number}")

    def lite(self, **_):
        self._vacuum(lite=True)

    def full(self, **_):
        self._vacuum(lite=False)

    def _vacuum(self, *, lite):
        log = self.table.log
        log.vacuum(24 * 2, enforce_retention=False, lite=lite)
        self.table.version = log.refresh().version

    def needed(self):
        """The files of every version that was the latest one within the last two days."""
        ends = [*(since for since, _ in self.versions[1:]), self.table.now + 1]
        states = (state for (_, state), end in zip(self.versions, ends, strict=True) if end > self.table.now - 2 * DAY)
        return set().union(*map(files_of, states))


STEPS = st.sampled_from(["add", "remove", "mark", "restore", "stray", "lite", "full"])


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(STEPS, st.integers(0, 4), st.integers(0, 3)), min_size=6, max_size=16))
@example([("add", 0, 0), ("mark", 0, 0), ("full", 0, 3)])
@example([("add", 0, 0), ("mark", 0, 1), ("remove", 0, 2), ("lite", 0, 1), ("full", 0, 0)])
@example([("add", 0, 0), ("remove", 0, 3), ("restore", 1, 0), ("lite", 0, 3)])
def test_no_vacuum_deletes_what_a_version_within_the_retention_reads(steps):
    model = Model()
    for number, (step, which, days) in enumerate(steps):
        model.take(step, number, which, days)
        assert model.needed() <= model.table.files()
