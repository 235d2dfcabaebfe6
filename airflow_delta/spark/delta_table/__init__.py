"""``DeltaTable`` with the methods of delta-spark's Python class, implemented by the operations of this package."""
