"""Files rewritten in groups (bins): a bin that loses an input to a winner is left out, and the others are committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta.core.actions import ADD_FILE, NO_ADDS, NO_REMOVES, REMOVE_FILE, CommitActions
from airflow_delta.core.log.action_reconciliation import canonical_paths

RewriteMetrics: TypeAlias = Callable[[pa.Table, pa.Table], Mapping[str, int | str]]
"""Computes Delta's operation metrics from the files added (``ADD_FILE``) and removed (``REMOVE_FILE``) by the commit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileRewriteBin:
    """Files whose rows move to other files; the whole bin is committed or none of it.

    Attributes:
        removes: The files to remove, columns ``REMOVE_FILE``, ``data_change`` false.
        adds: The files that replace them, columns ``ADD_FILE``, ``data_change`` false.
    """

    removes: pa.Table
    adds: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RewriteBins:
    """The bin that each file of a commit belongs to.

    Attributes:
        of_adds: For each added file, the index of its bin.
        of_removes: For each removed file, likewise.
        lost: Indexes of the bins that were left out.
        metrics: Computes the metrics of the bins left.
    """

    of_adds: pa.Array
    of_removes: pa.Array
    lost: tuple[int, ...] = ()
    metrics: RewriteMetrics | None = None

    @classmethod
    def from_bins(
        cls, bins: Sequence[FileRewriteBin], metrics: RewriteMetrics | None = None
    ) -> tuple[RewriteBins, pa.Table, pa.Table]:
        """The grouping, and the adds and removes of all bins, each as one table."""
        adds = pa.concat_tables([NO_ADDS, *(in_columns_of(ADD_FILE, rewrite.adds) for rewrite in bins)])
        removes = pa.concat_tables([NO_REMOVES, *(in_columns_of(REMOVE_FILE, rewrite.removes) for rewrite in bins)])
        of_adds = _ordinals([len(rewrite.adds) for rewrite in bins])
        return (
            cls(of_adds=of_adds, of_removes=_ordinals([len(rewrite.removes) for rewrite in bins]), metrics=metrics),
            adds,
            removes,
        )

    @property
    def is_empty(self) -> bool:
        """Whether no file is left."""
        return not (len(self.of_adds) or len(self.of_removes))

    @staticmethod
    def rearranges(adds: pa.Table, removes: pa.Table) -> bool:
        """Whether none of the files changes data."""
        return not any(pc.any(files["data_change"]).as_py() for files in (adds, removes))

    def without(self, removed: pa.ChunkedArray, actions: CommitActions) -> tuple[RewriteBins, CommitActions]:
        """What is left after another writer has removed these paths: the bins whose inputs all still exist."""
        is_gone = pc.is_in(canonical_paths(actions.removes["path"]), canonical_paths(removed).combine_chunks())
        gone = self.of_removes.filter(is_gone.combine_chunks()).unique()
        if not len(gone):
            return self, actions
        adds_stay, removes_stay = (pc.invert(pc.is_in(ordinals, gone)) for ordinals in (self.of_adds, self.of_removes))
        adds, removes = actions.adds.filter(adds_stay), actions.removes.filter(removes_stay)
        info = actions.commit_info
        if info and self.metrics:
            metrics = {name: str(value) for name, value in self.metrics(adds, removes).items()}
            info = replace(info, operation_metrics=metrics)
        left = replace(
            self,
            of_adds=self.of_adds.filter(adds_stay),
            of_removes=self.of_removes.filter(removes_stay),
            lost=tuple(sorted({*self.lost, *gone.to_pylist()})),
        )
        return left, replace(actions, adds=adds, removes=removes, commit_info=info)


def in_columns_of(schema: pa.Schema, files: pa.Table) -> pa.Table:
    """The files with exactly the columns of the schema, in its order; extra columns are dropped."""
    return files if files.schema.equals(schema) else files.select(schema.names).cast(schema)


def _ordinals(lengths: Sequence[int]) -> pa.Array:
    parts = [pa.repeat(pa.scalar(ordinal, pa.int32()), length) for ordinal, length in enumerate(lengths)]
    return pa.concat_arrays([pa.array([], pa.int32()), *parts])
