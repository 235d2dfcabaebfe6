"""Reading the files in ``_delta_log``."""
