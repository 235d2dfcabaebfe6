"""The WRITE statement: append, overwrite, replace a range; the first write creates the table."""
