"""The session of a job over Spark Connect. Each try has its own, so that the next try can end what it left on the server."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import cast

import grpc
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.proto import AnalyzePlanRequest, ReleaseSessionRequest, SparkConnectServiceStub, UserContext
from pyspark.sql.connect.session import SparkSession as ConnectSession

from airflow_delta.core.actions.commit_info import Origin
from airflow_delta.core.errors import DeltaError
from airflow_delta.jobs.errors import ServerDeniedError, ServerUnreachableError
from airflow_delta.jobs.session import DEFAULTS
from airflow_delta.jobs.spark_version import check_spark
from airflow_delta.spark.spark_features import suit_client
from airflow_delta.spark.worker_code import send_when_needed

_PATIENCE = 30.0
"""Seconds that the server has to answer."""

_GRACE = 3.0
"""Seconds that closing the session may take: PySpark would ask a server that is gone for ten minutes."""

KEEPALIVE = {
    "grpc.keepalive_time_ms": 310_000,  # servers of gRPC by default take one ping in five minutes
    "grpc.keepalive_timeout_ms": 20_000,
    "grpc.keepalive_permit_without_calls": 0,
    "grpc.http2.max_pings_without_data": 0,  # any number
}
"""Options of a channel that pings the server: one whose machine is gone closes no connection, and would be waited for."""

_DENIED = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


@contextmanager
def connect_session(remote: str, origin: Origin, settings: Mapping[str, str], archive: str) -> Iterator[SparkSession]:
    """A session whose operations are tagged with the token; SIGTERM interrupts them and ends the process.

    Operations that the try before, or an earlier start of this try, has left running are ended first. This is safe: their
    driver is lost, and operations do not commit by themselves.

    Args:
        remote: URL of the server, from ``SPARK_REMOTE``; a secret.
        origin: The task that requests the statement.
        settings: Spark settings of the session; they take precedence over this package's.
        archive: Path of the code for the server's Python workers.

    Raises:
        ServerUnreachableError: No Spark Connect server answers.
        ServerDeniedError: The server refuses the token or the user.
        SparkTooOldError: The server's Spark is older than jobs need.
    """
    url = remote if "/;" in remote else f"{remote.rstrip('/')}/"
    number = origin.record.get("try_number")
    attempt = number if isinstance(number, int) else 1
    own = session_id(origin, attempt)
    _release(url, session_id(origin, attempt - 1))
    _release(url, own, may_return=True)
    spark = _open(f"{url};session_id={own}")

    def leave() -> None:
        with suppress(DeltaError):  # the server may be gone
            _release(url, own, may_return=True)
        spark.stop()

    _end_on_sigterm(leave)
    try:
        check_spark(version := str(spark.version))
        if origin.token is not None:
            spark.addTag(origin.token)
        for name, value in (DEFAULTS | dict(settings)).items():
            if name.startswith("spark.sql."):
                spark.conf.set(name, value)
        suit_client(spark, version)
        send_when_needed(spark, lambda session: session.addArtifacts(archive, pyfile=True))
        yield spark
    finally:
        _within_grace(leave)


def _open(url: str) -> SparkSession:
    """As ``SparkSession.builder.remote``, which takes no options of a channel."""
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    session = ConnectSession.builder.channelBuilder(DefaultChannelBuilder(url, [*KEEPALIVE.items()])).getOrCreate()
    return cast("SparkSession", session)


def session_id(origin: Origin, attempt: int) -> str:
    """The session's id: the same for the same token and try; random without a token."""
    return str(uuid.uuid4() if origin.token is None else uuid.uuid5(uuid.NAMESPACE_OID, f"{origin.token}/{attempt}"))


def _release(url: str, session: str, *, may_return: bool = False) -> None:
    """Release a session, which interrupts its operations. Does nothing if the server has no such session.

    Args:
        url: URL of the server.
        session: The session's id.
        may_return: Whether a new session may have the same id.
    """
    builder = DefaultChannelBuilder(url)
    user = UserContext(user_id=builder.userId or os.environ.get("SPARK_USER") or os.environ.get("USER", ""))
    request = ReleaseSessionRequest(
        session_id=session, user_context=user, client_type=builder.userAgent, allow_reconnect=may_return
    )
    with builder.toChannel() as channel:
        server = SparkConnectServiceStub(channel)
        try:
            server.ReleaseSession(request, metadata=builder.metadata(), timeout=_PATIENCE)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:  # Spark before 4.0
                asked = AnalyzePlanRequest(
                    session_id=session, user_context=user, spark_version=AnalyzePlanRequest.SparkVersion()
                )
                with suppress(grpc.RpcError):
                    answer = server.AnalyzePlan(asked, metadata=builder.metadata(), timeout=_PATIENCE)
                    check_spark(answer.spark_version.version)
            failed = ServerDeniedError if error.code() in _DENIED else ServerUnreachableError
            raise failed(address=f"sc://{builder.endpoint}", detail=f"{error.code().name}: {error.details()}") from None


def _end_on_sigterm(leave: Callable[[], None]) -> None:
    def end(*_: object) -> None:
        with suppress(OSError):  # the worker may be gone
            os.write(2, b"SIGTERM: what runs on the server is interrupted\n")
        _within_grace(leave)
        os._exit(os.EX_TEMPFAIL)

    signal.signal(signal.SIGTERM, end)


def _within_grace(leave: Callable[[], None]) -> None:
    leaving = threading.Thread(target=leave, daemon=True)
    leaving.start()
    leaving.join(_GRACE)
