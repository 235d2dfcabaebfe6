"""Health check of a table: present and impending problems, with remedies. Nothing is changed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_delta.core.operations.table_health.checks import CHECKS
from airflow_delta.core.operations.table_health.finding import Finding, Severity
from airflow_delta.core.operations.table_health.inspected_table import InspectedTable
from airflow_delta.core.operations.table_log import TableLog

__all__ = ["Finding", "Severity", "TableHealth", "check_health"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth:
    """The result of a health check.

    Attributes:
        version: The latest version; None if the log cannot be opened.
        findings: The findings, worst first.
        figures: Numbers for dashboards, as far as known: ``files``, ``bytes``, ``small_files``, ``commits_since_checkpoint``,
            ``unneeded_files``, ``unneeded_bytes``, ``deletion_vectors``.
    """

    table: str
    version: int | None
    findings: tuple[Finding, ...] = ()
    figures: dict[str, int] = field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return asdict(self)


def check_health(log: TableLog, *, list_files: bool = True) -> TableHealth:
    """Check the log, and the data files if ``list_files``: one flat listing of the whole table.

    Raises:
        TableNotFoundError: The table does not exist.
        StorageAccessError: The storage denies access.
    """
    table = InspectedTable(log, with_files=list_files)
    findings = [finding for check in CHECKS for finding in check(table)]
    findings.sort(key=lambda finding: list(Severity).index(finding.severity))
    return TableHealth(
        table=log.table_uri,
        version=table.snapshot.version if table.snapshot else table.listing.latest_version,
        findings=tuple(findings),
        figures=table.figures(),
    )
