"""Interprets the errors of object stores. No I/O; no store's package is needed."""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Iterator
from enum import Enum, auto


class Meaning(Enum):
    """What a failed request means."""

    TAKEN = auto()
    """The object exists already, so it was not created; an earlier sending of this very request may have created it."""
    ABSENT = auto()
    """The object does not exist."""
    EMPTY = auto()
    """The object is empty, although a range of it was requested."""
    BUSY = auto()
    """Nothing was done, because another writer is writing the object right now: repeat the same request."""
    REFUSED = auto()
    """Nothing was done, and a retry will not help: no bucket, no permission, no credentials."""
    EXPIRED = auto()
    """Nothing was done: the credentials have expired."""
    FULL = auto()
    """Nothing was written: no space is left, or the quota is exhausted."""
    UNSUPPORTED = auto()
    """The service does not support a part of the request, such as the condition of a create."""
    UNKNOWN = auto()
    """No answer, or an answer that does not show whether the request was executed."""


_BY_CODE = {
    "ConditionalRequestConflict": Meaning.BUSY,
    "OperationAborted": Meaning.BUSY,
    "PreconditionFailed": Meaning.TAKEN,
    "BlobAlreadyExists": Meaning.TAKEN,
    "UnauthorizedBlobOverwrite": Meaning.TAKEN,  # the token may create objects, but not replace them
    "NotImplemented": Meaning.UNSUPPORTED,
    "RequestTimeout": Meaning.UNKNOWN,  # this one and the next two come with HTTP status 400
    "IncompleteBody": Meaning.UNKNOWN,
    "BadDigest": Meaning.UNKNOWN,
    **dict.fromkeys(("ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"), Meaning.EXPIRED),
    **dict.fromkeys(("NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "ResourceNotFound"), Meaning.REFUSED),
}
_BY_STATUS = {
    404: Meaning.ABSENT,
    408: Meaning.UNKNOWN,
    409: Meaning.BUSY,
    412: Meaning.TAKEN,
    416: Meaning.EMPTY,
    429: Meaning.UNKNOWN,
    501: Meaning.UNSUPPORTED,
}
_BY_ERRNO = {
    errno.ENOENT: Meaning.ABSENT,
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), Meaning.REFUSED),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), Meaning.FULL),
    **dict.fromkeys((errno.EIO, errno.ESTALE, errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.EPIPE), Meaning.UNKNOWN),
    **dict.fromkeys((errno.ETIMEDOUT, errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED), Meaning.UNKNOWN),
    **dict.fromkeys((errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENOTCONN, errno.ESHUTDOWN), Meaning.UNKNOWN),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOLCK, errno.EREMOTEIO), Meaning.UNKNOWN),
}
# How Arrow's own filesystems write a service's answer into the text of an OSError.
_ARROW_AWS = re.compile(r"AWS Error (?P<name>[A-Z_]+)(?: \(HTTP status (?P<status>\d+)\))? during (?P<request>\w+) operation")
_ARROW_AWS_CODE = re.compile(r"Unable to parse ExceptionName: (\w+)")
_ARROW_GOOGLE = re.compile(r"google::cloud::Status\((?P<name>[A-Z_]+)")
_ARROW_AZURE = re.compile(r"Azure Error: \[(?P<code>\w*)\](?: (?P<status>\d{3}))?")
# S3 returns ExpiredToken with status 400. Arrow does not see that code: a HEAD has no body, and the body of a GET is written
# into the data buffer, whose unused rest, with arbitrary memory content, is parsed along with it.
_READS_OF_S3 = frozenset({"HeadObject", "GetObject"})
_NO_TOKEN = re.compile("Could not create a OAuth2 access token|Failed to get token from ")
_BY_ARROW_NAME = {
    **dict.fromkeys(("NO_SUCH_KEY", "RESOURCE_NOT_FOUND", "NOT_FOUND"), Meaning.ABSENT),
    **dict.fromkeys(("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH"), Meaning.REFUSED),
    **dict.fromkeys(("INVALID_SIGNATURE", "MISSING_AUTHENTICATION_TOKEN", "INVALID_CLIENT_TOKEN_ID"), Meaning.REFUSED),
    **dict.fromkeys(("UNRECOGNIZED_CLIENT", "NO_SUCH_BUCKET", "PERMISSION_DENIED", "UNAUTHENTICATED"), Meaning.REFUSED),
    "REQUEST_EXPIRED": Meaning.EXPIRED,
}
_CLIENT_ERRORS, _SERVER_ERRORS = 300, 500
# Errors raised before any request is sent.
_NO_IDENTITY = re.compile(
    r"Credential|Unauthorized|TokenRetrieval|ProfileNotFound|ParamValidation|ClientAuthentication|Signing"
)
_PACKAGES = frozenset({"aiobotocore", "aiohttp", "azure", "botocore", "gcsfs", "google", "http", "requests", "s3fs", "urllib3"})
_QUERY = re.compile(r"\?[^\s'\"]*")  # may contain signatures


def meaning_of(error: BaseException) -> Meaning:
    """The meaning of a request's error; UNKNOWN if in doubt."""
    return storage_meaning(error) or Meaning.UNKNOWN


def storage_meaning(error: BaseException) -> Meaning | None:
    """The meaning of an error for the storage; None if the storage did not cause it, as when a file's content is wrong."""
    for cause in _causes(error):
        if (by_arrow := _arrow_meaning(cause)) is not None:
            return by_arrow
        status, code = _status(cause), _code(cause)
        if code in _BY_CODE:
            return _BY_CODE[code]
        if status is not None:
            return _by_status(status)
        if _NO_IDENTITY.search(type(cause).__name__):
            return Meaning.REFUSED
        if isinstance(cause, OSError) and cause.errno in _BY_ERRNO:
            return _BY_ERRNO[cause.errno]
        if isinstance(cause, (ConnectionError, TimeoutError)) or _is_of_a_package(cause):
            return Meaning.UNKNOWN
    return None


def described(error: BaseException, secrets: Collection[str] = ()) -> str:
    """The error for people: class, status, and the first line of its text without the secrets."""
    origin = next(_causes(error))
    text = _QUERY.sub("?...", str(error).strip().partition("\n")[0])
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "...")
    codes = [str(part) for part in dict.fromkeys((_status(origin), _code(origin))) if part is not None]
    return f"{' '.join([type(error).__name__, *codes])}: {text}"


def _arrow_meaning(error: BaseException) -> Meaning | None:
    """The meaning of a service's answer to one of Arrow's filesystems; None for other errors."""
    if not (isinstance(error, OSError) or type(error).__module__ == "pyarrow.lib"):
        return None
    text = str(error)
    if _NO_TOKEN.search(text):  # Google's client reports this as UNAVAILABLE, and Arrow's Azure client as unknown
        return Meaning.REFUSED
    found = _ARROW_AWS.search(text) or _ARROW_AZURE.search(text) or _ARROW_GOOGLE.search(text)
    if found is None:
        return None
    answer = found.groupdict()
    code = _ARROW_AWS_CODE.search(text)
    if code is None and answer.get("request") in _READS_OF_S3 and answer["status"] == "400":
        return Meaning.EXPIRED
    known = _BY_CODE.get(code[1] if code else answer.get("code", "")) or _BY_ARROW_NAME.get(answer.get("name", ""))
    return known or (_by_status(int(answer["status"])) if answer.get("status") else Meaning.UNKNOWN)


def _by_status(status: int) -> Meaning:
    return _BY_STATUS.get(status, Meaning.REFUSED if _CLIENT_ERRORS <= status < _SERVER_ERRORS else Meaning.UNKNOWN)


def _is_of_a_package(error: BaseException) -> bool:
    """Whether the class of the error comes from an object store's package, or from one that it builds on."""
    return type(error).__module__.partition(".")[0] in _PACKAGES


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, preceded by the service's own errors that caused it."""
    if error.__cause__ is not None:
        yield from _causes(error.__cause__)
    yield error


def _status(error: BaseException) -> int | None:
    """The HTTP status, wherever botocore, azure-core, gcsfs and aiohttp store it."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        code = response.get("Error", {}).get("Code")
        return status or (int(code) if str(code).isdigit() else None)
    for name in ("status_code", "status", "code"):
        status = getattr(error, name, None)
        if str(status).isdigit():
            return int(str(status))
    if isinstance(error, FileExistsError):
        return 412
    if isinstance(error, FileNotFoundError):
        return 404
    if isinstance(error, PermissionError) or (type(error) is OSError and str(error).startswith("Forbidden")):  # gcsfs
        return 403
    return None


def _code(error: BaseException) -> str | None:
    response = getattr(error, "response", None)
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else getattr(error, "error_code", None)
    return str(getattr(code, "value", code)) if code is not None else None
