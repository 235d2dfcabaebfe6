"""How errors of the real packages are classified."""

import google.auth.exceptions
import pytest
from aiohttp import ClientConnectionError, ClientPayloadError, ServerDisconnectedError
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
    ServiceRequestError,
)
from azure.storage.blob._shared.authentication import AzureSigningError
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ParamValidationError
from gcsfs.retry import HttpError
from s3fs.errors import translate_boto_error

from airflow_delta.core.storage.storage_answers import Meaning, described, meaning_of


def s3(code, status, **members):
    response = {"Error": {"Code": code, "Message": "text", **members}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return translate_boto_error(ClientError(response, "PutObject"))


def azure(kind, status, code=None):
    error = kind(message="text")
    error.status_code, error.error_code = status, code
    return error


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (s3("PreconditionFailed", 412, Condition="If-None-Match"), Meaning.TAKEN),
        (s3("PreconditionFailed", 412), Meaning.TAKEN),
        (s3("412", 412), Meaning.TAKEN),
        (s3("ConditionalRequestConflict", 409), Meaning.BUSY),
        (s3("NoSuchKey", 404), Meaning.ABSENT),
        (s3("404", 404), Meaning.ABSENT),
        (s3("InvalidRange", 416), Meaning.EMPTY),
        (s3("NoSuchBucket", 404), Meaning.REFUSED),
        (s3("AccessDenied", 403), Meaning.REFUSED),
        (s3("ExpiredToken", 400), Meaning.EXPIRED),
        (s3("PermanentRedirect", 301), Meaning.REFUSED),
        (s3("RequestTimeout", 400), Meaning.UNKNOWN),
        (s3("SlowDown", 503), Meaning.UNKNOWN),
        (s3("InternalError", 500), Meaning.UNKNOWN),
        (s3("NotImplemented", 501), Meaning.UNSUPPORTED),
        (NoCredentialsError(), Meaning.REFUSED),
        (AzureSigningError("Invalid base64-encoded string"), Meaning.REFUSED),
        (ParamValidationError(report="Invalid bucket name"), Meaning.REFUSED),
        (EndpointConnectionError(endpoint_url="http://x"), Meaning.UNKNOWN),
        (azure(ResourceExistsError, 409, "BlobAlreadyExists"), Meaning.TAKEN),
        (azure(HttpResponseError, 412, "ConditionNotMet"), Meaning.TAKEN),
        (azure(HttpResponseError, 403, "UnauthorizedBlobOverwrite"), Meaning.TAKEN),
        (azure(ResourceNotFoundError, 404, "BlobNotFound"), Meaning.ABSENT),
        (azure(ResourceNotFoundError, 404, "ContainerNotFound"), Meaning.REFUSED),
        (azure(ClientAuthenticationError, 403, "AuthorizationFailure"), Meaning.REFUSED),
        (azure(ClientAuthenticationError, None), Meaning.REFUSED),
        (azure(HttpResponseError, 503, "ServerBusy"), Meaning.UNKNOWN),
        (ServiceRequestError("no connection"), Meaning.UNKNOWN),
        (FileExistsError("gcs"), Meaning.TAKEN),
        (FileNotFoundError("gcs"), Meaning.ABSENT),
        (OSError("Forbidden: b/x/o"), Meaning.REFUSED),
        (HttpError({"code": 401, "message": "Invalid Credentials"}), Meaning.REFUSED),
        (HttpError({"code": 429, "message": "slow"}), Meaning.UNKNOWN),
        (HttpError({"code": 503, "message": "slow"}), Meaning.UNKNOWN),
        (google.auth.exceptions.DefaultCredentialsError("none"), Meaning.REFUSED),
        (ServerDisconnectedError(), Meaning.UNKNOWN),
        (ClientConnectionError(), Meaning.UNKNOWN),
        (ClientPayloadError(), Meaning.UNKNOWN),
        (TimeoutError(), Meaning.UNKNOWN),
        (ConnectionResetError(), Meaning.UNKNOWN),
        (OSError(5, "anything"), Meaning.UNKNOWN),
    ],
    ids=lambda answer: answer.name if isinstance(answer, Meaning) else type(answer).__name__,
)
def test_an_error_of_a_package_means(error, meaning):
    assert meaning_of(error) is meaning


def test_the_text_for_a_person_says_what_the_service_said_and_nothing_secret():
    text = described(
        s3("AccessDenied", 403, Message="no: k3y at https://host/x?sig=abc&se=1 'quoted'\nStringToSign: secret"), ["k3y"]
    )
    assert text == "PermissionError 403 AccessDenied: no: ... at https://host/x?... 'quoted'"
