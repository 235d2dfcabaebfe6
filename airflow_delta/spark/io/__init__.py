"""Reading and writing of data files from Spark: scans, sinks, staging areas, footers."""
