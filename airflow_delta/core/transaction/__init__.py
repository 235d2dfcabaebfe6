"""Writing: the commit attempt, the conflict rules, and the commit loop."""
