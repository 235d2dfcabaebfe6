"""Classifies error texts of a Hive metastore, from its Thrift answers and from Spark."""

from __future__ import annotations

import re

_DENIED = re.compile(r"permission denied|AccessControlException|not authorized|does not have .*privilege", re.IGNORECASE)
_PASSES = re.compile(
    r"TTransportException|Could not connect|Connection (refused|reset)|SocketTimeout|Unable to instantiate \S*MetaStoreClient"
    r"|JDOException|JDODataStoreException|CommunicationsException|Communications link failure|SQLTransient",
    re.IGNORECASE,
)
"""Errors if the metastore, or the metastore's database, cannot be reached."""


def is_denied(text: str) -> bool:
    """Whether the text says that a request was not permitted."""
    return _DENIED.search(text) is not None


def passes(text: str) -> bool:
    """Whether the same request may succeed later."""
    return _PASSES.search(text) is not None
