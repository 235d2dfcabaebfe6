"""The upkeep of tables that are too large for one machine to look through."""
