"""Statements that change rows of a table: which rows, their new values, and the rewritten files."""
