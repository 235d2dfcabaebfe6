"""What all statements share: sources, expectations, reads of the target, staged rows, outcomes, and the retry on a conflict."""
