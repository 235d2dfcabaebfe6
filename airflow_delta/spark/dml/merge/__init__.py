"""MERGE: how its condition is read, which rows match, what becomes of them, and the commit."""
