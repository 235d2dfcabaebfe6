"""What the flights DAGs and the demo share: the feed, the tables, and (for `make demo` only) runs and their summary."""
