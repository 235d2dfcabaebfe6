"""The only package that touches files."""
