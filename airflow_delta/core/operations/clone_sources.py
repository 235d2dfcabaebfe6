"""Registration of shallow clones, so that they may read their source's files: each source lists its clones.

The clone's own claim is not trusted, because anyone who can write below a table could make it claim to be a clone of any other
table. ``core/storage/file_locator.py`` reads both files.
"""

from __future__ import annotations

import json

from airflow_delta.core.errors import StorageAccessError, UnsupportedStorageError
from airflow_delta.core.storage.file_locator import CLONE_SOURCES, FileLocator, clone_record
from airflow_delta.core.storage.log_store import LogStore
from airflow_delta.core.storage.place import Place
from airflow_delta.core.storage.resolve import log_store_for
from airflow_delta.core.storage.table_uri import local_path, scheme_of


def register_clone(source: LogStore, clone: LogStore) -> str | None:
    """Record, beside the source and below the clone, that the clone may read the source's files.

    Returns:
        Why readers of the clone still need the source in their allowed prefixes; None if they do not.

    Raises:
        OSError: The storage does not answer.
    """
    own = Place.from_uri(clone.table_uri)
    if own.volume != Place.from_uri(source.table_uri).volume:
        return f"{source.table_uri} lies in another bucket"
    record = json.dumps({"clone": clone.table_uri}).encode()
    origins = tuple(FileLocator.from_store(source).sources)  # if the source is itself a clone
    try:
        source.write(clone_record(own), record)
        for origin in origins:
            log_store_for(origin, source.storage_options or None).write(clone_record(own), record)
    except (StorageAccessError, UnsupportedStorageError) as error:
        return error.claim()
    uri = source.table_uri
    root = str(local_path(uri)) if scheme_of(uri) == "file" else uri
    former = tuple(FileLocator.from_store(clone).sources)  # older versions of the clone may share these sources' files
    clone.write(CLONE_SOURCES, json.dumps([*dict.fromkeys((root, *origins, *former))]).encode())
    return None
