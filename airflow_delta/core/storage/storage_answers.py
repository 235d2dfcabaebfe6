"""What the many errors of the object stores' packages mean for a log. Pure; no package of a store is needed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from enum import Enum, auto


class Meaning(Enum):
    """What a failed request says."""

    TAKEN = auto()
    """The object exists, so that it was not created; it may be there by an earlier sending of this very request."""
    ABSENT = auto()
    """There is no such object."""
    EMPTY = auto()
    """There is nothing in the object where a part of it was asked for."""
    BUSY = auto()
    """Nothing was done, because somebody else is writing the object right now: send the same request again."""
    REFUSED = auto()
    """Nothing was done, nor will be: no bucket, no permission, no credentials."""
    UNSUPPORTED = auto()
    """The service does not know a part of the request, as the condition of a create."""
    UNKNOWN = auto()
    """No answer, or one that does not tell whether the request was carried out."""


_BY_CODE = {
    "ConditionalRequestConflict": Meaning.BUSY,
    "OperationAborted": Meaning.BUSY,
    "PreconditionFailed": Meaning.TAKEN,
    "BlobAlreadyExists": Meaning.TAKEN,
    "UnauthorizedBlobOverwrite": Meaning.TAKEN,  # a token that may create but not replace
    "NotImplemented": Meaning.UNSUPPORTED,
    "RequestTimeout": Meaning.UNKNOWN,  # these three come with the status 400
    "IncompleteBody": Meaning.UNKNOWN,
    "BadDigest": Meaning.UNKNOWN,
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
_CLIENT_ERRORS, _SERVER_ERRORS = 300, 500
# Errors that come before any request: who asks, or what for, is not known.
_NO_IDENTITY = re.compile(r"Credential|Unauthorized|TokenRetrieval|ProfileNotFound|ParamValidation|ClientAuthentication")
_QUERY = re.compile(r"\?[^\s'\"]*")  # where signatures are


def meaning_of(error: BaseException) -> Meaning:
    """What the error of a request means; wherever in doubt, that nothing is known."""
    for each in _causes(error):
        status, code = _status(each), _code(each)
        if code in _BY_CODE:
            return _BY_CODE[code]
        if status in _BY_STATUS:
            return _BY_STATUS[status]
        if status is not None:
            return Meaning.REFUSED if _CLIENT_ERRORS <= status < _SERVER_ERRORS else Meaning.UNKNOWN
        if _NO_IDENTITY.search(type(each).__name__):
            return Meaning.REFUSED
    return Meaning.UNKNOWN


def described(error: BaseException, secrets: Collection[str] = ()) -> str:
    """The error for a person: its class and status, and the first line of its text without the secrets."""
    origin = next(_causes(error))
    text = _QUERY.sub("?...", str(error).strip().partition("\n")[0])
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "...")
    codes = [str(each) for each in dict.fromkeys((_status(origin), _code(origin))) if each is not None]
    return f"{' '.join([type(error).__name__, *codes])}: {text}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The service's own error before what its package made of it."""
    if error.__cause__ is not None:
        yield from _causes(error.__cause__)
    yield error


def _status(error: BaseException) -> int | None:
    """The HTTP status, from wherever botocore, azure-core, gcsfs and aiohttp keep it."""
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
