"""Low-level Parquet: footers, Bloom filters, Thrift's compact protocol."""
