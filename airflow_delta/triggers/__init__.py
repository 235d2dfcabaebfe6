"""Waiting for Delta tables without a worker."""
