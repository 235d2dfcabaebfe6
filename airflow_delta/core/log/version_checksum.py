"""The ``.crc`` file beside a commit: what the table is at that version, in numbers and non-file actions.

Protocol: PROTOCOL.md, "Version Checksum File". The file is optional and never the truth: the log is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_delta.core.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from airflow_delta.core.actions.json_object import JsonObject
from airflow_delta.core.json_text import parse_json
from airflow_delta.core.log.file_names import checksum_path
from airflow_delta.core.storage.log_store import LogStore

_HISTOGRAMS = ("fileSizeHistogram", "histogramOpt")  # as the protocol has it, and as old writers wrote it


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChecksum:
    """What a checksum file says about its version.

    Attributes:
        table_size: Bytes of all live files.
        num_files: Live files.
        txn_id: Of the commit; None when not recorded.
        in_commit_timestamp: Milliseconds since the epoch; None where the commit carries no time.
        transactions: How far each application has written; None when not recorded.
        domains: The domains that are there; None when not recorded.
        histogram: How many files there are of which size, as it stands in the file; None when not recorded.
    """

    table_size: int
    num_files: int
    protocol: Protocol
    metadata: Metadata
    txn_id: str | None = None
    in_commit_timestamp: int | None = None
    transactions: tuple[SetTransaction, ...] | None = None
    domains: tuple[DomainMetadata, ...] | None = None
    histogram: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The object that is the content of the file."""
        document: dict[str, Any] = {
            "txnId": self.txn_id,
            "tableSizeBytes": self.table_size,
            "numFiles": self.num_files,
            "numMetadata": 1,
            "numProtocol": 1,
            "inCommitTimestampOpt": self.in_commit_timestamp,
            "setTransactions": None
            if self.transactions is None
            else [transaction.to_json() for transaction in self.transactions],
            "domainMetadata": None if self.domains is None else [domain.to_json() for domain in self.domains],
            "metadata": self.metadata.to_json(),
            "protocol": self.protocol.to_json(),
            "fileSizeHistogram": None if self.histogram is None else dict(self.histogram),
        }
        return {key: value for key, value in document.items() if value is not None}

    @classmethod
    def from_json(cls, document: Any) -> VersionChecksum:
        """What the object says; ``allFiles`` and unknown fields are ignored.

        Raises:
            ValueError: A required field is missing, or a field is not of its kind.
        """
        try:
            transactions, domains = document.get("setTransactions"), document.get("domainMetadata")
            fields = JsonObject(document)
            if (document["numMetadata"], document["numProtocol"]) != (1, 1):
                raise ValueError("a version has exactly one protocol and one metadata")
            return cls(
                table_size=fields.required("tableSizeBytes", int),
                num_files=fields.required("numFiles", int),
                protocol=Protocol.from_json(document["protocol"]),
                metadata=Metadata.from_json(document["metadata"]),
                txn_id=fields.optional("txnId", str),
                in_commit_timestamp=fields.optional("inCommitTimestampOpt", int),
                transactions=None if transactions is None else tuple(map(SetTransaction.from_json, transactions)),
                domains=None if domains is None else tuple(map(DomainMetadata.from_json, domains)),
                histogram=next((found for key in _HISTOGRAMS if isinstance(found := document.get(key), dict)), None),
            )
        except (LookupError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


def differences(checksum: VersionChecksum, counted: VersionChecksum) -> tuple[str, ...]:
    """What a checksum says that was counted otherwise, each as a text; what either does not record is no difference."""
    found = []
    for name in ("num_files", "table_size", "protocol", "metadata", "in_commit_timestamp"):
        says, is_so = getattr(checksum, name), getattr(counted, name)
        if says != is_so and says is not None and is_so is not None:
            found.append(f"{name} is {is_so}, not {says}" if isinstance(says, int) else f"it holds another {name}")
    for name in ("transactions", "domains"):
        says, is_so = getattr(checksum, name), getattr(counted, name)
        if says is not None and is_so is not None and {*says} != {*is_so}:
            found.append(f"it holds other {name}")
    return tuple(found)


def read_checksum(store: LogStore, version: int) -> VersionChecksum | None:
    """What the checksum file of this version says; None where there is none, or none that can be read."""
    try:
        return VersionChecksum.from_json(parse_json(store.read(checksum_path(version))))
    except (OSError, ValueError):  # text that is not UTF-8 is a ValueError too
        return None
