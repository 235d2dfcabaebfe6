"""The table features, and which of them are supported."""
