"""Reading and writing the log against ``deltalake``: in fresh processes, with equal answers, ratios compared with targets.

``python -m benchmarks.log_core`` measures all cases. Each group of cases has three modules: the cases (``reading``), our side
(``reading_ours``) and the peer's (``reading_theirs``), so that no process loads the other side's engine.
"""
