"""The contract between operator and job: what goes in, what comes out, and how the code gets there. No Airflow."""
