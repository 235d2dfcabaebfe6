"""``DeltaTable``: the class of delta-spark's Python package, by its method names, over the operations here."""
