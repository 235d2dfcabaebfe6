"""OPTIMIZE: which small files become one, and the commit that says so."""
