"""Which expressions of a table may be evaluated: only those of Spark's built-in, row-wise functions.

Anyone who can write to a table's log controls its CHECK constraints, invariants, defaults and generation expressions; the job
that evaluates them has permissions and secrets of its own. So an expression is checked before Spark analyzes it, because
analysis already resolves tables, loads classes and queries catalogs: no subquery, no reflection, no function or variable of the
session. What Spark resolves the names to is checked afterwards.

Delta: ``SupportedGenerationExpressions``. Its functions are all allowed here except ``xpath`` and the like, which fetch what a
    document names, ``json_tuple``, which returns several columns, and ``sequence``, ``format_string`` and ``printf``, whose
    results may be of any size; functions that Spark has added since are allowed, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from sqlglot import TokenType

from airflow_delta.core.predicate.syntax import MAX_WORK_OF_TABLE
from airflow_delta.core.schema.column_names import name_key
from airflow_delta.spark.constraints.column_references import tokens_of
from airflow_delta.spark.constraints.plain_expression import NotPlainError, plain_expression
from airflow_delta.spark.errors import TableRuleRefusedError
from airflow_delta.spark.io.sql_expression import column_of, parsed_expression, sql_expression
from airflow_delta.spark.jvm import active_jvm, analyzed_plan, is_connect, session_state

MAX_LENGTH = MAX_WORK_OF_TABLE
"""Most characters of an expression; Spark's analysis recurses into nested parts."""

_FUNCTIONS = """
    abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc degrees div e exp expm1
    factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative pi pmod positive pow power radians rint
    round sec sign signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract unhex width_bucket
    bit_count bit_get getbit shiftleft shiftright shiftrightunsigned between coalesce equal_null if iff ifnull ilike isnan
    isnotnull isnull like nanvl not nullif nullifzero nvl nvl2 regexp regexp_like rlike when zeroifnull bigint binary boolean
    cast date decimal double float int smallint string time timestamp tinyint ascii base64 bit_length btrim char char_length
    character_length charindex chr collate collation concat concat_ws contains decode elt encode endswith find_in_set
    format_number initcap instr is_valid_utf8 lcase left len length levenshtein locate lower lpad ltrim
    luhn_check make_valid_utf8 mask octet_length overlay position quote regexp_count regexp_extract regexp_extract_all
    regexp_instr regexp_replace regexp_substr repeat replace reverse right rpad rtrim sentences soundex space split split_part
    startswith substr substring substring_index to_binary to_char to_number to_varchar translate trim try_to_binary
    try_to_number try_validate_utf8 ucase unbase64 upper validate_utf8 parse_url try_parse_url try_url_decode url_decode
    url_encode add_months convert_timezone curdate current_date current_time current_timestamp current_timezone date_add
    date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth
    dayofweek dayofyear extract from_unixtime from_utc_timestamp hour last_day localtimestamp make_date make_dt_interval
    make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval minute month monthname
    months_between next_day now quarter second time_diff time_from_micros time_from_millis time_from_seconds time_to_micros
    time_to_millis time_to_seconds time_trunc timestamp_micros timestamp_millis timestamp_seconds timestampadd timestampdiff
    to_date to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_make_interval
    try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp unix_date
    unix_micros unix_millis unix_seconds unix_timestamp weekday weekofyear window year array array_append array_compact
    array_contains array_distinct array_except array_insert array_intersect array_join array_max array_min array_position
    array_prepend array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip cardinality element_at
    flatten get map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys map_values named_struct
    size slice sort_array str_to_map struct try_element_at aggregate exists filter forall map_filter map_zip_with
    reduce transform transform_keys transform_values zip_with crc32 hash md5 sha sha1 sha2 xxhash64 assert_true raise_error
    typeof current_user session_user user from_csv schema_of_csv to_csv from_json get_json_object json_array_length
    json_object_keys schema_of_json to_json is_valid_variant is_variant_null parse_json schema_of_variant to_variant_object
    try_parse_json try_variant_get variant_get
"""

FUNCTIONS = frozenset(_FUNCTIONS.split())
"""Row-wise functions without access to anything outside of the row, except the time and the user's name."""

_LENGTH_ARGUMENTS = {
    "array_insert": 1, "array_repeat": 1, "format_number": 1, "lpad": 1, "repeat": 1, "rpad": 1, "space": 0,
}  # fmt: skip
"""Functions whose result's length is given by an argument, with the index of that argument."""

_NODE_NAMES = """
    UnresolvedAttribute UnresolvedFunction UnresolvedExtractValue UnresolvedNamedLambdaVariable UnresolvedCollation
    LambdaFunction Literal Alias Cast Collate SemiStructuredExtract NamePlaceholder$ CreateNamedStruct And Or Not EqualTo
    EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual Between In IsNull IsNotNull IsNaN Like ILike RLike
    LikeAll LikeAny NotLikeAll NotLikeAny CaseWhen If Coalesce Add Subtract Multiply Divide IntegralDivide Remainder
    UnaryMinus UnaryPositive BitwiseAnd BitwiseOr BitwiseXor BitwiseNot ShiftLeft ShiftRight ShiftRightUnsigned Concat
    Substring StringTrim StringTrimLeft StringTrimRight StringTrimBoth StringLocate Overlay TimestampAdd TimestampDiff Extract
    CurrentDate CurrentTime CurrentTimestamp CurrentUser
"""

_NODES = frozenset(_NODE_NAMES.split())
"""Catalyst nodes of operators, and of expressions with special syntax."""

_CATALYST = "org.apache.spark.sql.catalyst."
_LITERAL_FUNCTIONS = frozenset(
    {"current_date", "current_time", "current_timestamp", "current_user", "localtimestamp", "session_user", "user"}
)
_BUILT_IN = "built-in"
_MOST_REPETITIONS = 8
_DOUBLED = re.compile("case|trim", re.IGNORECASE)


def permitted_expression(rule: str, text: str, *, table: str, spark: SparkSession) -> PermittedExpression:
    """The expression of a table, if it may be evaluated; Spark has not analyzed it yet.

    Args:
        rule: What the expression belongs to, for the error.
        text: Its SQL.
        table: URI of the table, for the error.
        spark: The session that would analyze it.

    Raises:
        TableRuleRefusedError: It contains something that no rule of a table needs.
        ParseException: It is not valid SQL.
    """
    if len(text) > MAX_LENGTH or _repetitions(text) > _MOST_REPETITIONS:
        raise TableRuleRefusedError(table=table, rule=rule, detail="SQL that is too long, or nested too deeply")
    jvm = active_jvm()
    if jvm is None:
        return _permitted_over_connect(rule, text, table=table, spark=spark)
    tree = parsed_expression(jvm, text)
    functions: set[str] = set()
    names: set[str] = set()
    # One call for the whole tree, instead of several for each node.
    nodes = json.loads(tree.toJSON())
    for position, node in enumerate(nodes):
        kind, parts = str(node["class"]), str(node.get("nameParts"))
        name = kind.rpartition(".")[2]
        if not kind.startswith(_CATALYST) or name not in _NODES:
            found = "a subquery" if "Subquery" in name or name == "Exists" else f"the expression {name}"
            raise TableRuleRefusedError(table=table, rule=rule, detail=found)
        if name == "UnresolvedFunction":
            functions.add(parts)
            if not _is_bounded(nodes, position):
                detail = f"a length for the function {parts.strip('[]')} that is no number up to {MAX_LENGTH}"
                raise TableRuleRefusedError(table=table, rule=rule, detail=detail)
        elif name == "UnresolvedAttribute":
            names.add(parts)
    catalog = session_state(spark).catalog()
    for called in sorted(functions):
        function = called.strip("[]")
        known = catalog.lookupBuiltinOrTempFunction(function.lower()) if function.lower() in FUNCTIONS else None
        if known is None or not known.isDefined() or known.get().getSource() != _BUILT_IN:
            raise TableRuleRefusedError(table=table, rule=rule, detail=f"the function {function}")
    return PermittedExpression(rule=rule, table=table, column=column_of(jvm, tree), names=frozenset(names))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PermittedExpression:
    """An expression of a table before analysis.

    Attributes:
        rule: What it belongs to.
        table: URI of the table.
        column: The expression.
        names: The names in it, with parts in brackets as Catalyst shows them.
    """

    rule: str
    table: str
    column: Column
    names: frozenset[str]

    def check_analyzed(self, frame: DataFrame, columns: Iterable[str]) -> None:
        """Return if Spark has resolved the names to these columns, and the value is deterministic.

        Args:
            frame: Rows that are selected or filtered by this expression only.
            columns: The columns available to it.

        Raises:
            TableRuleRefusedError: A name is a variable of the session, or the value is not deterministic.
        """
        known = (*map(name_key, columns), *_LITERAL_FUNCTIONS)
        for name in sorted(self.names):
            shown = name_key(name)
            if not any(shown == f"[{name}]" or shown.startswith(f"[{name}, ") for name in known):
                found = f"the name {name.strip('[]')}, which is no column"
                raise TableRuleRefusedError(table=self.table, rule=self.rule, detail=found)
        # With Spark Connect only built-in functions are allowed, all of which are deterministic.
        if not is_connect(frame.sparkSession) and not analyzed_plan(frame).expressions().head().deterministic():
            raise TableRuleRefusedError(table=self.table, rule=self.rule, detail="its value is not deterministic")


def _permitted_over_connect(rule: str, text: str, *, table: str, spark: SparkSession) -> PermittedExpression:
    """As ``permitted_expression``, from the text alone, which shows neither lengths of results nor what a lambda does."""
    try:
        plain = plain_expression(text, FUNCTIONS - _LENGTH_ARGUMENTS.keys())
    except NotPlainError as error:
        raise TableRuleRefusedError(
            table=table, rule=rule, detail=f"{error}, which cannot be checked over Spark Connect"
        ) from error
    for function in sorted(plain.functions):
        if not str(spark.catalog.getFunction(function).className).startswith(_CATALYST):
            raise TableRuleRefusedError(table=table, rule=rule, detail=f"the function {function}")
    names = frozenset(f"[{name}]" for name in plain.names)
    return PermittedExpression(rule=rule, table=table, column=sql_expression(text), names=names)


def _is_bounded(nodes: Sequence[Mapping[str, Any]], position: int) -> bool:
    """Whether the length of this function call's result, if an argument gives it, is a small literal.

    Args:
        nodes: The tree in Catalyst's order: each node before its children.
        position: Index of the call.
    """
    number = _LENGTH_ARGUMENTS.get(str(nodes[position].get("nameParts")).strip("[]").lower())
    if number is None or number >= nodes[position]["num-children"]:  # Spark rejects a call with too few arguments
        return True
    argument = position + 1
    for _ in range(number):
        pending = 1
        while pending:
            pending += nodes[argument]["num-children"] - 1
            argument += 1
    value = str(nodes[argument].get("value"))
    return value.isdecimal() and len(value) <= len(str(MAX_LENGTH)) and int(value) <= MAX_LENGTH


def _repetitions(text: str) -> int:
    """How often Catalyst doubles the innermost part of an expression in its JSON: for each CASE, and TRIM(... FROM ...)."""
    tokens = tokens_of(text)
    if tokens is None:  # Spark may still be able to parse it
        return len(_DOUBLED.findall(text))
    deepest = depth = 0
    opened: list[bool] = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        match token.token_type:
            case TokenType.CASE:
                depth += 1
            case TokenType.END:
                depth -= depth > 0
            case TokenType.L_PAREN:
                opened.append(before is not None and before.text.upper() == "TRIM")
                depth += opened[-1]
            case TokenType.R_PAREN if opened:
                depth -= opened.pop()
        deepest = max(deepest, depth)
    return deepest
