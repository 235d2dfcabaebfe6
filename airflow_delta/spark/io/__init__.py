"""How rows come out of files and go into them: scans, sinks, staging areas, listings."""
