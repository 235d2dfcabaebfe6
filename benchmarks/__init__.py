"""Benchmarks against a peer that is measured in the same run: ``python -m benchmarks.<name>``."""
