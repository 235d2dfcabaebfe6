"""Files rewritten in Python workers: rows dropped, replaced or marked as deleted, the others copied as they are."""
