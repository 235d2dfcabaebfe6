"""The version checksum (``.crc`` file beside a commit): file totals and non-file actions of the table at that version.

Protocol: PROTOCOL.md, "Version Checksum File". The file is optional and only a hint: the log decides.
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

_HISTOGRAMS = ("fileSizeHistogram", "histogramOpt")  # the protocol's name, and that of old writers


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChecksum:
    """The content of a version checksum file.

    Attributes:
        table_size: Total size of all live files, in bytes.
        num_files: Number of live files.
        txn_id: Transaction id of the commit; None when not recorded.
        in_commit_timestamp: Milliseconds since the epoch; None if the commit has none.
        transactions: The last transaction of each application; None when not recorded.
        domains: The current metadata domains; None when not recorded.
        histogram: The histogram of file sizes, unchanged from the file; None when not recorded.
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
        """The JSON object that is the content of the file."""
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
        """The checksum in this JSON object; ``allFiles`` and unknown fields are ignored.

        Raises:
            ValueError: A required field is missing, or a field has the wrong type.
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
    """The differences between a checksum and the counted values, as texts; fields that either one lacks are not compared."""
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
    """The checksum file of this version; None if it is missing or unreadable."""
    try:
        return VersionChecksum.from_json(parse_json(store.read(checksum_path(version))))
    except (OSError, ValueError):  # also a ValueError: text that is not UTF-8
        return None
