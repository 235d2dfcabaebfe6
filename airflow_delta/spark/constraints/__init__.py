"""Constraint enforcement, and column defaults, generated and identity columns, on write."""
