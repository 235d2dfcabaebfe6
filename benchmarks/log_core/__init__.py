"""The log against ``deltalake``: fresh processes, equal answers, ratios beside their targets.

``python -m benchmarks.log_core`` measures all cases. A group of cases is three modules: what is measured (``reading``), our
side (``reading_ours``) and the peer's (``reading_theirs``), so that no process loads the other side's engine.
"""
