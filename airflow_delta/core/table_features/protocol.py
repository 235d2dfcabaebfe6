"""The protocol that a table needs, computed from what its metadata uses.

Protocol: PROTOCOL.md, "Protocol Evolution", "Table Features for New and Existing Tables".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from airflow_delta.core.actions import Metadata, Protocol
from airflow_delta.core.table_features.feature import (
    FEATURES,
    FEATURES_READER_VERSION,
    FEATURES_WRITER_VERSION,
    reader_features,
    writer_features,
)

NEW_TABLE = Protocol(min_reader_version=1, min_writer_version=2)
"""The protocol of a table that uses no features: every engine supports it."""

_LAST_LEGACY_READER = 2
_NONE = Protocol(min_reader_version=1, min_writer_version=1)
_LEGACY = tuple(Protocol(min_reader_version=1 if version < 5 else 2, min_writer_version=version) for version in (2, 3, 4, 5, 6))  # noqa: PLR2004


def needed_features(metadata: Metadata) -> frozenset[str]:
    """The features that schema and properties require, with the features that those require."""
    return with_required(feature.name for feature in FEATURES.values() if feature.is_needed(metadata))


def protocol_for(metadata: Metadata, features: Iterable[str] = ()) -> Protocol:
    """The lowest protocol of a new table with this metadata and these features."""
    return upgraded(NEW_TABLE, {*needed_features(metadata), *features})


def upgraded(protocol: Protocol, features: Iterable[str]) -> Protocol:
    """``protocol`` with these features, and those that they require; the same object if it has them all.

    A protocol without lists of features stays so if a legacy version implies exactly the wanted features. If it must list
    features, it lists all that its version implied, as any of them may have been used.
    """
    wanted = with_required(features)
    writers = writer_features(protocol) | wanted
    readers = reader_features(protocol) | {name for name in wanted if FEATURES[name].for_readers}
    if writers == writer_features(protocol) and readers == reader_features(protocol):
        return protocol
    lists_features = protocol.min_writer_version >= FEATURES_WRITER_VERSION
    legacy = None if lists_features else next((protocol for protocol in _LEGACY if writer_features(protocol) == writers), None)
    return legacy or _listing(protocol, readers, writers)


def at_least(protocol: Protocol, *, reader_version: int, writer_version: int) -> Protocol:
    """``protocol``, raised to at least these versions, which supports the features that legacy versions imply.

    Reader version 3 and writer version 7 imply no features; they only allow lists of features.
    """
    lists_readers, lists_writers = reader_version >= FEATURES_READER_VERSION, writer_version >= FEATURES_WRITER_VERSION
    legacy = Protocol(min_reader_version=1, min_writer_version=1 if lists_writers else writer_version)
    implied = writer_features(legacy) | ({"columnMapping"} if reader_version == _LAST_LEGACY_READER else set())
    result = upgraded(protocol, implied)
    if not (lists_readers or lists_writers):
        return result
    reader = max(result.min_reader_version, FEATURES_READER_VERSION if lists_readers else 1)
    return Protocol(
        min_reader_version=reader,
        min_writer_version=FEATURES_WRITER_VERSION,
        reader_features=reader_features(result) if reader == FEATURES_READER_VERSION else None,
        writer_features=writer_features(result),
    )


def contradictions_in(protocol: Protocol) -> Iterator[str]:
    """What is invalid in a protocol, so that writers could interpret it differently.

    An empty list where no list is allowed is ignored. So is ``columnMapping`` without a reader version that supports it: table
    versions from before it was used have that.

    Protocol: PROTOCOL.md, "Protocol Evolution", "Table Features".
    """
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if reader >= FEATURES_READER_VERSION and writer < FEATURES_WRITER_VERSION:
        yield f"the reader version {reader} needs the writer version {FEATURES_WRITER_VERSION}, not {writer}"
    for version, listing, features, name in (
        (reader, FEATURES_READER_VERSION, protocol.reader_features, "reader"),
        (writer, FEATURES_WRITER_VERSION, protocol.writer_features, "writer"),
    ):
        if version >= listing and features is None:
            yield f"the {name} version {version} needs a list {name}Features"
        if version < listing and features:
            yield f"the {name} version {version} must not have a list {name}Features"
    if writer >= FEATURES_WRITER_VERSION:
        yield from _missing_names(protocol)


def _missing_names(protocol: Protocol) -> Iterator[str]:
    readers, writers = reader_features(protocol), writer_features(protocol)
    for name in sorted((protocol.reader_features or frozenset()) - writers):
        yield f"readerFeatures names {name}, writerFeatures does not"
    for feature in (FEATURES[name] for name in sorted(writers & FEATURES.keys())):
        if feature.for_readers and feature.reader_version is None and feature.name not in readers:
            yield f"writerFeatures names {feature.name}, readerFeatures does not"
        for name in feature.requires:
            if name not in writers:
                yield f"{feature.name} needs {name}"


def without(protocol: Protocol, feature: str) -> Protocol:
    """``protocol`` without this feature, at the lowest versions that support the rest."""
    writers, readers = writer_features(protocol) - {feature}, reader_features(protocol) - {feature}
    legacy = next((protocol for protocol in (_NONE, *_LEGACY) if writer_features(protocol) == writers), None)
    return legacy or _listing(_NONE, readers, writers)


def dependents(protocol: Protocol, feature: str) -> tuple[str, ...]:
    """The features of the protocol that require this one, sorted by name."""
    known = (FEATURES.get(name) for name in writer_features(protocol))
    return tuple(sorted(candidate.name for candidate in known if candidate and feature in candidate.requires))


def with_required(features: Iterable[str]) -> frozenset[str]:
    """These features and all that they require, directly or indirectly."""
    return frozenset(_closure(features))


def _closure(features: Iterable[str]) -> Iterator[str]:
    for name in features:
        yield name
        yield from _closure(FEATURES[name].requires)


def _listing(protocol: Protocol, readers: frozenset[str], writers: frozenset[str]) -> Protocol:
    """A protocol that lists the writer features, and the reader features unless a legacy version implies just these."""
    legacy = protocol.min_reader_version <= _LAST_LEGACY_READER and readers <= {"columnMapping"}
    return Protocol(
        min_reader_version=(2 if readers else protocol.min_reader_version) if legacy else FEATURES_READER_VERSION,
        min_writer_version=FEATURES_WRITER_VERSION,
        reader_features=None if legacy else readers,
        writer_features=writers,
    )
