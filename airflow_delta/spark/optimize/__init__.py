"""OPTIMIZE and REORG: which files are rewritten together, and the commit."""
