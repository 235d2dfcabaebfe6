"""The code that runs on Spark, on its way there: the archive, the job scripts, and a place where both wait for jobs."""
