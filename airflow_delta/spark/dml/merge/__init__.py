"""MERGE: its condition, the join of source and target, the clauses that apply, and the commit."""
