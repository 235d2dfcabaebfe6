"""What the texts of errors of a Hive metastore mean: as its Thrift answers hold them, and as Spark shows them."""

from __future__ import annotations

import re

_DENIED = re.compile(r"permission denied|AccessControlException|not authorized|does not have .*privilege", re.IGNORECASE)
_PASSES = re.compile(
    r"TTransportException|Could not connect|Connection (refused|reset)|SocketTimeout|Unable to instantiate \S*MetaStoreClient"
    r"|JDOException|JDODataStoreException|CommunicationsException|Communications link failure|SQLTransient",
    re.IGNORECASE,
)
"""The metastore is not reached, or does not reach its database."""


def is_denied(text: str) -> bool:
    """Whether a request was not permitted."""
    return _DENIED.search(text) is not None


def passes(text: str) -> bool:
    """Whether the same request can succeed later."""
    return _PASSES.search(text) is not None
