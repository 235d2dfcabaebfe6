"""Enforcement of constraints on write, and column defaults, generated and identity columns."""
