"""What Parquet files say of themselves in their footers."""
