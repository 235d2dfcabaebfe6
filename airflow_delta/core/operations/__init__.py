"""What keeps a table fast and small: checkpoints and vacuum."""
