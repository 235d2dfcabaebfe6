"""Read-only statements about a table: DESCRIBE HISTORY, DESCRIBE DETAIL, SHOW COLUMNS, SHOW TBLPROPERTIES."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from airflow_delta.core.sql_text.names import TextContext, table_name, table_or_path
from airflow_delta.core.sql_text.words import Words


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeHistory:
    """The commits of a table, newest first.

    Attributes:
        table: URI of the table's root.
        limit: Most commits to return; None is all that the log holds.
    """

    type_name: ClassVar[str] = "DESCRIBE HISTORY"
    table: str
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDetail:
    """Details of a table: location, size, properties, protocol."""

    type_name: ClassVar[str] = "DESCRIBE DETAIL"
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowColumns:
    """The names of a table's columns."""

    type_name: ClassVar[str] = "SHOW COLUMNS"
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowProperties:
    """The properties of a table.

    Attributes:
        table: URI of the table's root.
        key: Only the property with this name; None is all.
    """

    type_name: ClassVar[str] = "SHOW TBLPROPERTIES"
    table: str
    key: str | None = None


Question = DescribeHistory | DescribeDetail | ShowColumns | ShowProperties


def read_describe(words: Words, context: TextContext) -> DescribeHistory | DescribeDetail:
    """DESCRIBE|DESC HISTORY table|'path' [LIMIT n], DESCRIBE|DESC DETAIL table|'path'."""
    if not words.skip("DESC"):
        words.expect("DESCRIBE")
    if words.skip("DETAIL"):
        name = table_or_path(words)
        words.end()
        return DescribeDetail(table=context.target_uri(words, name))
    if not words.skip("HISTORY"):
        raise words.expected("HISTORY or DETAIL")
    name = table_or_path(words)
    limit = words.whole_number() if words.skip("LIMIT") else None
    words.end()
    return DescribeHistory(table=context.target_uri(words, name), limit=limit)


def read_show(words: Words, context: TextContext) -> ShowColumns | ShowProperties:
    """SHOW COLUMNS IN|FROM table, SHOW TBLPROPERTIES table [(key)]."""
    words.expect("SHOW")
    if words.skip("TBLPROPERTIES"):
        name = table_name(words)
        keys = () if words.is_at_end else words.listed(words.property_key)
        if len(keys) > 1:
            raise words.error(f"expected one key, found {len(keys)}", "leave the list out for all properties")
        words.end()
        return ShowProperties(table=context.target_uri(words, name), key=keys[0] if keys else None)
    if not words.skip("COLUMNS"):
        raise words.expected("COLUMNS or TBLPROPERTIES")
    if not words.skip("IN"):
        words.expect("FROM")
    name = table_name(words)
    words.end()
    return ShowColumns(table=context.target_uri(words, name))
