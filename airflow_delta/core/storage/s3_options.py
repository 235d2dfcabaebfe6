"""Checks the storage options of s3fs before the first request, as wrong ones would look like a store that does not answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from inspect import signature
from typing import Any

_OBJECTS = ("client_kwargs", "config_kwargs", "s3_additional_kwargs")
_TEXTS = ("key", "secret", "token", "username", "password", "endpoint_url")
_CLIENT_TEXTS = ("region_name", "endpoint_url", "aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_MADE_BY_S3FS = {"self", "service_name", "config"}
"""Parameters of botocore's client that s3fs sets itself, so that ``client_kwargs`` cannot contain them."""

_URL = re.compile(r"https?://[^/\s]", re.IGNORECASE)
_URL_CURE = "write it with http:// or https://, and with a host"


def wrong_s3_options(filesystem_kwargs: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """What is wrong with storage options, and how to write it correctly if that is special; None if s3fs accepts them.

    Values are not shown, as they may be secrets.

    Args:
        filesystem_kwargs: The options that s3fs does not use itself, and passes to its session.
        options: All options.
    """
    return next(_wrong(filesystem_kwargs, options), None)


def _wrong(filesystem_kwargs: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    session = import_module("aiobotocore.session").AioSession
    if unknown := sorted(filesystem_kwargs.keys() - signature(session).parameters.keys()):
        yield f"s3fs has no storage options {', '.join(unknown)}", None
    for name in _OBJECTS:
        if not isinstance(options.get(name) or {}, Mapping):
            yield f"expected {name} to be an object, found a {type(options[name]).__name__}", None
            return
    client, config = (options.get(name) or {} for name in _OBJECTS[:2])
    yield from _wrong_texts(options, _TEXTS, "")
    yield from _wrong_texts(client, _CLIENT_TEXTS, "client_kwargs.")
    known = signature(import_module("botocore.session").Session.create_client).parameters.keys() - _MADE_BY_S3FS
    if unknown := sorted(map(str, client.keys() - known)):
        yield f"client_kwargs has no {', '.join(unknown)}; it takes {', '.join(sorted(known))}", None
    for place, endpoint in (("", options.get("endpoint_url")), ("client_kwargs.", client.get("endpoint_url"))):
        if endpoint and not _URL.match(endpoint):
            yield f"its {place}endpoint_url is no URL", _URL_CURE
    try:
        import_module("botocore.utils").validate_region_name(client.get("region_name"))
    except Exception:  # noqa: BLE001 - as below
        yield "its client_kwargs.region_name is no name of a region", None
    try:
        import_module("aiobotocore.config").AioConfig(**config)
    except Exception as error:  # noqa: BLE001 - botocore has an error of its own for each option
        yield f"the AWS client does not take the config_kwargs {sorted(map(str, config))} ({type(error).__name__})", None


def _wrong_texts(options: Mapping[str, Any], names: tuple[str, ...], place: str) -> Iterator[tuple[str, None]]:
    for name in names:
        if not isinstance(options.get(name), str | None):
            yield f"expected {place}{name} to be a text, found a {type(options[name]).__name__}", None
