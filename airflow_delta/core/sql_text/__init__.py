"""Parses Delta's SQL statements to the values of ``core.statements``.

sqlglot only tokenizes a text; the grammar of each statement is implemented here, strictly: anything outside of it raises an
error with the position, what was expected and what was found. Expressions and queries remain the user's own text.
"""

from airflow_delta.core.sql_text.merge import merge_statement
from airflow_delta.core.sql_text.names import TableName, TextContext
from airflow_delta.core.sql_text.queries import QueriedTable, with_named_views
from airflow_delta.core.sql_text.questions import DescribeDetail, DescribeHistory, Question, ShowColumns, ShowProperties
from airflow_delta.core.sql_text.statement import is_query, is_statement, parse_statement, tables_of_text

__all__ = [
    "DescribeDetail",
    "DescribeHistory",
    "QueriedTable",
    "Question",
    "ShowColumns",
    "ShowProperties",
    "TableName",
    "TextContext",
    "is_query",
    "is_statement",
    "merge_statement",
    "parse_statement",
    "tables_of_text",
    "with_named_views",
]
