"""Which table features exist, and what we refuse."""
