"""Statements that change rows of a table: which rows, what becomes of them, and the files that follow."""
