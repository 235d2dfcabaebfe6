"""An S3 server that accepts only the short-lived keys that a catalog vends, each until it expires."""

import re
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

_KEY_ID = re.compile(r"Credential=([^/,]+)/")
_REFUSED = b"<Error><Code>%s</Code><Message>refused</Message></Error>"


@dataclass
class GuardedS3:
    """The server; the owner's own key is ``test``.

    Attributes:
        lifetime: Milliseconds for which a key is valid.
        keys: Expiry, secret and session token of each vended key, by its id.
        used: The key id of each request, in order, without those of the owner.
        refused: Number of refused requests.
        delay: Seconds that each request takes, except the owner's.
    """

    lifetime: int = 3_600_000
    keys: dict = field(default_factory=dict)
    used: list = field(default_factory=list)
    refused: int = 0
    delay: float = 0.0
    endpoint: str = ""

    def vend(self, operation):
        """A new key, in the form of Unity's API."""
        number, ends = len(self.keys), int(time.time() * 1000) + self.lifetime
        key, secret, token = f"ASIAVENDED{number:010d}", f"vended-secret-{number:026d}", f"vended-session-token-{number}"
        self.keys[key] = (ends, secret, token)
        config = {"s3.access-key-id": key, "s3.secret-access-key": secret, "s3.session-token": token}
        return config, ends

    @property
    def secrets(self):
        """All secrets, which must never be shown."""
        return [text for key, (_, secret, token) in self.keys.items() for text in (key, secret, token)]

    def guard(self, application):
        def guarded(environ, start_response):
            found = _KEY_ID.search(environ.get("HTTP_AUTHORIZATION", ""))
            key = found and found[1]
            if key == "test":
                return application(environ, start_response)
            time.sleep(self.delay)
            ends, _, token = self.keys.get(key, (0, None, None))
            if ends <= time.time() * 1000 or environ.get("HTTP_X_AMZ_SECURITY_TOKEN") != token:
                self.refused += 1
                code = b"ExpiredToken" if key in self.keys else b"AccessDenied"
                start_response("403 Forbidden", [("Content-Type", "application/xml")])
                return [_REFUSED % code]
            self.used.append(key)
            return application(environ, start_response)

        return guarded


@contextmanager
def guarded_s3(**arguments):
    """A running server with a bucket ``lake``."""
    s3 = GuardedS3(**arguments)
    server = make_server("127.0.0.1", 0, s3.guard(DomainDispatcherApplication(create_backend_app)), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    s3.endpoint = f"http://127.0.0.1:{server.server_port}"
    own = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=s3.endpoint, **own)
    client.create_bucket(Bucket="lake")
    try:
        yield s3
    finally:
        for found in client.list_objects_v2(Bucket="lake").get("Contents", []):
            client.delete_object(Bucket="lake", Key=found["Key"])
        client.delete_bucket(Bucket="lake")
        server.shutdown()
