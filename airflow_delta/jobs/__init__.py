"""The contract between operator and job: what goes in, what comes out, and how the code gets there. No Airflow.

On a cluster this package is imported from the archive that the operator ships; what the cluster lacks of our pure-Python
dependencies is then taken from the archive too, behind everything that is installed.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from airflow_delta.jobs.archive import VENDOR_FOLDER, VENDORED_PACKAGES

if any(find_spec(each) is None for each in VENDORED_PACKAGES):
    sys.path.append(str(Path(__file__).parents[2] / VENDOR_FOLDER))
