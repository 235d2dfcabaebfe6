"""What secrets look like in texts. Every pattern is written to take time proportional to the length of the text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from airflow_delta.jobs.secret_names import is_secret_name

_KNOWN = re.compile(
    r"""
    -----BEGIN\ (?:[A-Z]+\ ){0,3}PRIVATE\ KEY(?:\ BLOCK)?-----(?:[^-]|-(?!----))*+(?:-----END\ [A-Z ]{1,40}-----)?
    | (?<![\w-])(?:
        (?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])
      | gh[opsur]_[A-Za-z0-9]{20,255} | github_pat_\w{20,255} | glpat-[\w-]{16,255}      # GitHub, GitLab
      | xox[abeoprs]-[A-Za-z0-9-]{10,255} | xapp-[A-Za-z0-9-]{10,255}                     # Slack
      | hooks\.slack\.com/services/[\w/]{10,255}
      | eyJ[\w-]{8,2000}+\.[\w-]{8,8000}+(?:\.[\w-]{0,2000})?                               # JSON Web Tokens
      | ya29\.[\w-]{16,2000} | AIza[\w-]{35} | GOCSPX-[\w-]{16,64}                        # Google
      | dapi[0-9a-f]{32} | dose[0-9a-f]{32}                                               # Databricks
      | [sr]k_(?:live|test)_[A-Za-z0-9]{16,255} | sk-(?:ant-|proj-)?[\w-]{20,255}         # Stripe, OpenAI, Anthropic
      | hf_[A-Za-z0-9]{30,64} | npm_[A-Za-z0-9]{36} | pypi-[\w-]{50,255}
      | hv[bs]\.[\w-]{20,255} | SG\.[\w-]{16,64}\.[\w-]{16,64} | AGE-SECRET-KEY-1[A-Z0-9]{20,80}
    )
    | (?<![A-Za-z0-9+/])[A-Za-z0-9+/]{86}==                                               # Azure's account keys
    """,
    re.VERBOSE,
)
_AWS_SECRET = re.compile(
    r"(?<![A-Za-z0-9+/])(?=[A-Za-z0-9+/]{0,39}[a-z])(?=[A-Za-z0-9+/]{0,39}[A-Z])[A-Za-z0-9+/]{40}(?![\w+/=])"
)
_AWS_KEY_ID = re.compile(r"(?:AKIA|ASIA)[A-Z0-9]{16}")
_USER_INFO = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,40}://[^/\s'\"?#:]{0,500}:(?P<value>[^/\s'\"]{1,5000})(?=@)"
)
_ORACLE = re.compile(r"jdbc:oracle:\w+:[^/\s@]{1,100}/(?P<value>[^/\s@]{1,500})(?=@)", re.IGNORECASE)
_AUTHORIZATION = re.compile(
    r"\b(?:bearer|basic|digest|negotiate|sharedkey(?:lite)?|sharedaccesssignature)\s{1,5}"
    r"(?P<value>(?=[\w.=+/:~-]{0,200}[0-9=])[\w.=+/:~-]{8,8000})",
    re.IGNORECASE,
)
_PARAMETER = re.compile(
    r"(?:[?&;]|(?<!\S)-D|(?<!\S)--)(?P<name>[A-Za-z][\w.-]{0,200}+)=(?P<value>(?:[^&;\s'\"%]|%[0-9A-Fa-f]{2}){3,8000})"
)
_QUOTED = re.compile(
    r"(?P<quote>\\{0,8}['\"]|''|\"\")(?P<name>[A-Za-z][\w.-]{0,200}+)(?P=quote)\s{0,5}(?:[:=,]|=>)\s{0,5}"
    r"[bBuUrRfF]{0,2}(?P=quote)(?P<value>[^'\"\\\s]{3,8000})"
)
_BEGINS = r"(?![\s'\",;)}\]|&])"
"""After doubled quotes, which is how SQL writes a quote within a literal: a value begins. Otherwise they are an empty text."""
_CLAUSE = re.compile(
    rf"\b(?:password|passwd|secret|credentials|identified\s{{1,5}}by)\s{{1,5}}(?:['\"]|(?:'{{2,4}}|\"{{2,4}}){_BEGINS})"
    r"(?P<value>[^'\"]{4,8000})",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?<![\w.-])(?:-{1,2}D?)?(?P<name>[A-Za-z_][\w.-]{0,300}+)(?:''|\"\"|\\{0,8}['\"]?)\s{0,5}(?:=>|[=:]|(?<=\w),)\s{0,5}"
)
# Before Python 3.11.5, a possessive group consumes one character too many: only classes are possessive here.
_VALUE = re.compile(
    rf"(?P<twice>''|\"\"){_BEGINS}(?P<doubled>(?:[^'\"\n]++|(?P=twice){{2}}|(?!(?P=twice))[^\n])*)|"
    r"(?:[bBuUrRfF]{1,2}(?=['\"]))?(?P<mark>['\"])(?P<quoted>(?:[^\\'\"\n]++|\\.|(?P=mark){2}|(?!(?P=mark))[^\\\n])*)"
    r"|\\{1,8}['\"](?P<escaped>[^\\'\"\n]*+)"
    r"|(?P<bare>[^\s'\",;)}&]++)"
)
_SCHEMED = re.compile(r"[A-Za-z][\w-]{0,40}+[ \t]{1,5}[^\s'\",;)}&]++")
"""The value of an ``Authorization`` header: a scheme of any name, and the secret after it."""

_LONGEST_HARMLESS = 300
_HARMLESS = re.compile(
    r"(?i)(?:|true|false|yes|no|none|null|\*+|\d{1,9}|keytab|ccache|arn:aws[\w-]*:kms:\S*|(?:source|target)\.\w+|[$]\{[^}]*\}"
    r"|\{\{.*)"
)
"""Values that are not secret, whatever their name: switches, small numbers, names of keys and columns, templates."""


def is_harmless(value: str) -> bool:
    """Whether a value gives nothing away, even under the name of a secret."""
    return len(value) <= _LONGEST_HARMLESS and _HARMLESS.fullmatch(value) is not None


def secrets_in(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each secret in a text of any kind, including SQL, in no particular order.

    Only finds forms that a comparison in SQL does not have: in ``password = 'x'``, the name may be a column's.
    """
    yield from (match.span() for match in _KNOWN.finditer(text))
    if _AWS_KEY_ID.search(text):
        yield from (match.span() for match in _AWS_SECRET.finditer(text))
    for pattern in (_USER_INFO, _ORACLE, _AUTHORIZATION, _CLAUSE):
        yield from (match.span("value") for match in pattern.finditer(text))
    for pattern in (_PARAMETER, _QUOTED):
        for match in pattern.finditer(text):
            if is_secret_name(match["name"]) and not is_harmless(match["value"]):
                yield match.span("value")


def named_secrets_in(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each value after a secret's name, in texts that are not SQL: settings, messages, dumps of objects."""
    position = 0
    for match in _NAMED.finditer(text):
        if match.start() >= position and is_secret_name(match["name"]):
            value = _VALUE.match(text, match.end())
            if value is not None:
                span = value.span(value.lastgroup or 0)
                if not is_harmless(text[slice(*span)]):
                    if value.lastgroup == "bare" and match["name"].lower().endswith("authorization"):
                        schemed = _SCHEMED.match(text, match.end())
                        span = schemed.span() if schemed else span
                    position = span[1]
                    yield span
