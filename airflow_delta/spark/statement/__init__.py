"""What all statements share: sources, expectations, reads of the target, staged rows, results, and retries after conflicts."""
