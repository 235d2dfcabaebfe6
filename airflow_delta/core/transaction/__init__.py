"""Writing: the transaction, the conflict rules, and the commit loop."""
