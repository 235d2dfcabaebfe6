"""What the JVM's Hadoop gives: which filesystems it knows, and a log store on them."""
