"""Rewrites files in Python workers: rows are dropped, replaced or marked as deleted; all others are copied unchanged."""
