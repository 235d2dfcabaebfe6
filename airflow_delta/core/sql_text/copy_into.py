"""Parses COPY INTO."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import TokenType

from airflow_delta.core.sql_text.names import TextContext, table_name
from airflow_delta.core.sql_text.words import Words, split
from airflow_delta.core.statements import CopyIntoStatement

_FLAGS = {"true": True, "false": False}


def read_copy_into(words: Words, context: TextContext) -> CopyIntoStatement:
    """COPY INTO table FROM source FILEFORMAT = format [PATTERN = glob] [FORMAT_OPTIONS (…)] [COPY_OPTIONS (…)].

    The source is 'uri', or (SELECT expressions FROM 'uri'); the copy options are mergeSchema and force.
    """
    words.expect("COPY", "INTO")
    name = table_name(words)
    words.expect("FROM")
    select: tuple[str, ...] = ()
    if words.skip_sign(TokenType.L_PAREN):
        words.expect("SELECT")
        select = tuple(words.slice(expression) for expression in split(words.until("FROM"), TokenType.COMMA))
        words.expect("FROM")
        path = words.string()
        words.sign(TokenType.R_PAREN, ")")
    else:
        path = words.string()
    words.expect("FILEFORMAT")
    words.sign(TokenType.EQ, "=")
    file_format = words.name("a format").lower()
    pattern = None
    if words.skip("PATTERN"):
        words.sign(TokenType.EQ, "=")
        pattern = words.string()
    options = words.properties() if words.skip("FORMAT_OPTIONS") else {}
    merges, forces = _copy_options(words, words.properties() if words.skip("COPY_OPTIONS") else {})
    words.end()
    return CopyIntoStatement(
        table=context.target_uri(words, name),
        path=path,
        format=file_format,
        pattern=pattern,
        options=options,
        select=select,
        merge_schema=merges,
        reload=forces,
    )


def _copy_options(words: Words, options: Mapping[str, str]) -> tuple[bool, bool]:
    """The values of ``mergeSchema`` and ``force``."""
    found = {"mergeschema": False, "force": False}
    for name, value in options.items():
        if name.lower() not in found or value.lower() not in _FLAGS:
            raise words.error(f"{name} = {value!r} is not an option of COPY INTO", "give mergeSchema and force, true or false")
        found[name.lower()] = _FLAGS[value.lower()]
    return found["mergeschema"], found["force"]
