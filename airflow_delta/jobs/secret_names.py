"""Decides which names of settings, options, parameters and variables are names of secrets."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

_LONGEST = 300  # only the last characters of a name are examined

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_AZURE_ACCOUNT = re.compile(r"\.[\w-]+\.(?:dfs|blob)\.[\w.-]+$")  # the suffix of settings of one account
_WORKING_DIRECTORY = re.compile(r"(?:^|Env\.)(?:OLD)?PWD$")
_PLACES_OF_KUBERNETES = re.compile(r"kubernetes\.\w+\.secret(?:s|KeyRef)\.")

_SECRET = frozenset(
    {"password", "passwd", "pwd", "passphrase", "passcode", "secret", "token", "credential", "signature", "sig", "sas", "jwt"}
    | {"authorization", "bearer", "cookie", "otp", "apikey", "accesskey", "secretkey", "privatekey", "accountkey", "sharedkey"}
    | {"encryptionkey", "signingkey", "masterkey", "storagekey", "clientsecret", "accesstoken", "authtoken", "sessiontoken"}
    | {"oauthtoken", "refreshtoken", "idtoken", "sastoken", "connectionstring", "jaas"}
)
_ENDS = ("password", "passwd", "passphrase", "secret")
"""Ends of words that are written together, such as ``PGPASSWORD``."""

_KEYS = frozenset(
    {"access", "account", "api", "app", "auth", "client", "encryption", "hmac", "host", "license", "master", "private", "sas"}
    | {"secret", "service", "session", "shared", "signing", "ssh", "storage", "subscription"}
)
"""Words before ``key`` that make it a secret; ``primary``, ``partition`` and ``sort`` do not."""

_PAIRS = frozenset({("connection", "string"), ("keyfile", "dict"), ("webhook", "url")})

_DESCRIBED = frozenset(
    {"age", "algorithm", "at", "audience", "bit", "bits", "cache", "class", "count", "date", "dir", "directory"}
    | {"duration", "email", "enable", "enabled", "encoding", "endpoint", "expiration", "expiry", "file", "format"}
    | {"interval", "issuer", "keyfile", "keyspace", "length", "lifetime", "limit", "location", "manager"}
    | {"mapping", "mechanism", "mode", "name", "path", "policy", "prefix", "principal", "provider", "ratio"}
    | {"refresh", "regex", "renewal", "required", "scope", "size", "status", "store", "time", "timeout", "ttl"}
    | {"type", "uri", "url", "user", "username", "version"}
)
"""Last words of names that only describe a secret or its location."""


@lru_cache(maxsize=4_096)
def is_secret_name(name: str) -> bool:
    """Whether a setting of this name holds a secret; the name of a file, a provider or a lifetime does not.

    Words are split at changes of case and at punctuation: ``fs.s3a.secretKey`` and ``FS_S3A_SECRET_KEY`` have the same words.
    """
    words = words_of(name)
    pairs = {*pairwise(words)}
    if not pairs.isdisjoint(_PAIRS):
        return True
    if only_describes(name):
        return False
    is_key = any(before in _KEYS and _singular(word) == "key" for before, word in pairs)
    return is_key or words[-1] == "pass" or any(map(_is_secret_word, words))


def only_describes(name: str) -> bool:
    """Whether the name is that of a secret's file, provider or lifetime, or names no secret at all."""
    name = name[-_LONGEST:]
    words = words_of(name)
    is_place = _WORKING_DIRECTORY.search(name) or _PLACES_OF_KUBERNETES.search(name)
    return not words or is_place is not None or _singular(words[-1]) in _DESCRIBED or words[-1] in _DESCRIBED


def words_of(name: str) -> list[str]:
    """The words of a name in lower case, without the part that only addresses an Azure account."""
    return [word.lower() for word in _WORDS.findall(_AZURE_ACCOUNT.sub("", name[-_LONGEST:]))]


def _is_secret_word(word: str) -> bool:
    return word in _SECRET or _singular(word) in _SECRET or word.endswith(_ENDS)


def _singular(word: str) -> str:
    return word.removesuffix("s")
