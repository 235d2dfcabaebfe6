"""An object store for code."""

from tests.core.object_stores import moto_server, s3  # noqa: F401 - fixtures
