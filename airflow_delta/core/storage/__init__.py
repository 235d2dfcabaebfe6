"""Storage access: the only package of the core that opens files."""
