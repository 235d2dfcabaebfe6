"""What a table promises of its rows: what no row may break, and what a row gets that says nothing."""
