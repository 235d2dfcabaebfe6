"""Parses ALTER TABLE and COMMENT ON TABLE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import Token, TokenType

from airflow_delta.core.predicate.syntax import CLOSING, OPENING
from airflow_delta.core.sql_text.names import TextContext, table_name
from airflow_delta.core.sql_text.words import Words, word_of
from airflow_delta.core.statements import (
    AddColumns,
    AddConstraint,
    AllowNull,
    AlterStatement,
    ClusterBy,
    CommentColumn,
    DropColumns,
    DropConstraint,
    DropFeature,
    MoveColumn,
    RenameColumn,
    SetDefault,
    SetProperties,
    TableChange,
    UnsetProperties,
    WidenColumn,
)
from airflow_delta.core.table_changes.column_path import path_text


def read_alter(words: Words, context: TextContext) -> AlterStatement:
    """ALTER TABLE table, and one of the following.

    * ADD COLUMN[S] (definition [FIRST | AFTER column], …), DROP COLUMN[S] [IF EXISTS] (…), RENAME COLUMN a TO b
    * ALTER | CHANGE [COLUMN] a TYPE … | COMMENT … | FIRST | AFTER b | DROP NOT NULL | SET DEFAULT … | DROP DEFAULT
    * SET TBLPROPERTIES (…), UNSET TBLPROPERTIES [IF EXISTS] (…), CLUSTER BY (…) | NONE
    * ADD CONSTRAINT name CHECK (…), DROP CONSTRAINT [IF EXISTS] name, DROP FEATURE name [TRUNCATE HISTORY]
    """
    words.expect("ALTER", "TABLE")
    name = table_name(words)
    changes = tuple(_changes(words))
    words.end()
    return AlterStatement(table=context.target_uri(words, name), changes=changes)


def read_comment(words: Words, context: TextContext) -> AlterStatement:
    """COMMENT ON TABLE table IS text."""
    words.expect("COMMENT", "ON", "TABLE")
    name = table_name(words)
    words.expect("IS")
    comment = words.string()
    words.end()
    return AlterStatement(table=context.target_uri(words, name), changes=(SetProperties({"comment": comment}),))


def _changes(words: Words) -> Iterator[TableChange]:
    match words.peek():
        case "ADD":
            yield from _added(words)
        case "DROP":
            yield _dropped(words)
        case "ALTER" | "CHANGE":
            yield from _changed_column(words)
        case "RENAME":
            words.expect("RENAME", "COLUMN")
            column = path_text(words.path())
            words.expect("TO")
            yield RenameColumn(column, words.name())
        case "SET":
            words.expect("SET", "TBLPROPERTIES")
            yield SetProperties(words.properties())
        case "UNSET":
            words.expect("UNSET", "TBLPROPERTIES")
            if_exists = words.skip("IF", "EXISTS")
            yield UnsetProperties(words.listed(words.property_key), if_exists=if_exists)
        case "CLUSTER":
            words.expect("CLUSTER", "BY")
            yield ClusterBy(() if words.skip("NONE") else words.column_list())
        case "REPLACE":
            raise words.error("REPLACE COLUMNS is not taken", "add, drop, rename, move and widen columns one by one")
        case _:
            raise words.expected("ADD, ALTER, CHANGE, CLUSTER BY, DROP, RENAME COLUMN, SET or UNSET TBLPROPERTIES")


def _added(words: Words) -> Iterator[TableChange]:
    words.expect("ADD")
    if words.skip("CONSTRAINT"):
        name = words.name("the constraint's name")
        words.expect("CHECK")
        yield AddConstraint(name, words.slice(words.parenthesized("a condition in parentheses")))
        return
    if not words.skip("COLUMNS") and not words.skip("COLUMN"):
        raise words.expected("COLUMN, COLUMNS or CONSTRAINT")
    listed = words.parenthesized() if words.is_at(TokenType.L_PAREN) else words.rest()
    definitions = [_placed(words, definition) for definition in _definitions(listed)]
    if not any(first or after for _, first, after in definitions):
        yield AddColumns(words.slice(listed))
        return
    for text, first, after in definitions:
        yield AddColumns(text, first=first, after=after)


def _definitions(tokens: Sequence[Token]) -> list[list[Token]]:
    """The column definitions between top-level commas: those outside of parentheses and of types such as MAP<INT, STRING>."""
    pieces: list[list[Token]] = [[]]
    for token, is_inside in _nested(tokens):
        if token.token_type == TokenType.COMMA and not is_inside:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces


def _nested(tokens: Sequence[Token]) -> Iterator[tuple[Token, bool]]:
    """Each token, and whether it is inside parentheses or a type's angle brackets."""
    depth = angles = 0
    for token in tokens:
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        angles += (token.token_type == TokenType.LT) - (token.token_type == TokenType.GT) if not depth else 0
        yield token, bool(depth or angles)


def _placed(words: Words, tokens: Sequence[Token]) -> tuple[str, bool, str | None]:
    """A column definition without FIRST or AFTER, whether FIRST was given, and the column named by AFTER."""
    kind = 1  # index of the type's first token
    while kind < len(tokens) and tokens[kind].token_type == TokenType.DOT:
        kind += 2
    ending = [None if is_inside else word_of(token) for token, is_inside in _nested(tokens)][kind + 1 :]
    if ending[-1:] == ["FIRST"]:
        return words.slice(tokens[:-1]), True, None
    if ending[-2:-1] == ["AFTER"]:
        return words.slice(tokens[:-2]), False, tokens[-1].text
    if "AFTER" in ending:
        raise words.error("expected one name behind AFTER", at=tokens[0].start)
    return words.slice(tokens), False, None


def _dropped(words: Words) -> TableChange:
    words.expect("DROP")
    if words.skip("CONSTRAINT"):
        if_exists = words.skip("IF", "EXISTS")
        return DropConstraint(words.name("the constraint's name"), if_exists=if_exists)
    if words.skip("FEATURE"):
        name = words.name("the feature's name") if not words.is_at(TokenType.STRING) else words.string()
        return DropFeature(name, truncate_history=words.skip("TRUNCATE", "HISTORY"))
    if not words.skip("COLUMNS") and not words.skip("COLUMN"):
        raise words.expected("COLUMN, COLUMNS, CONSTRAINT or FEATURE")
    if_exists = words.skip("IF", "EXISTS")
    if words.is_at(TokenType.L_PAREN):
        return DropColumns(words.column_list(), if_exists=if_exists)
    columns = [path_text(words.path())]
    while words.skip_sign(TokenType.COMMA):
        columns.append(path_text(words.path()))
    return DropColumns(tuple(columns), if_exists=if_exists)


def _changed_column(words: Words) -> Iterator[TableChange]:
    if not words.skip("CHANGE"):
        words.expect("ALTER")
    words.skip("COLUMN")
    column = path_text(words.path())
    match words.peek():
        case "TYPE":
            words.expect("TYPE")
            yield WidenColumn(column, words.slice(words.rest()))
        case "COMMENT":
            words.expect("COMMENT")
            yield CommentColumn(column, words.string())
        case "FIRST" | "AFTER":
            yield _moved(words, column)
        case "SET":
            words.expect("SET")
            if words.next_is("NOT", "NULL"):
                raise words.expected("DEFAULT", f"write ADD CONSTRAINT … CHECK ({column} IS NOT NULL)")
            words.expect("DEFAULT")
            yield SetDefault(column, words.slice(words.rest()))
        case "DROP":
            words.expect("DROP")
            if words.skip("DEFAULT"):
                yield SetDefault(column, None)
            else:
                words.expect("NOT", "NULL")
                yield AllowNull(column)
        case _:
            raise words.expected("TYPE, COMMENT, FIRST, AFTER, SET or DROP", "change one thing of the column at a time")


def _moved(words: Words, column: str) -> MoveColumn:
    if words.skip("FIRST"):
        return MoveColumn(column, first=True)
    words.expect("AFTER")
    return MoveColumn(column, after=words.name("a column"))
