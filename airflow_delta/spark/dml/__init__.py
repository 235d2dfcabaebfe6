"""DELETE, UPDATE and MERGE: finds the rows to change, computes their new values, and rewrites files."""
