"""Access to the JVM's Hadoop: which filesystems it supports, and a log store on them."""
