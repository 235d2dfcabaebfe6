"""Reading what is in ``_delta_log``."""
