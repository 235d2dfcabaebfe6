"""Writing: one attempt to commit, the rules of a race, and the loop around them."""
