"""Our modules as pip installs them: compiled, whatever this environment says of bytecode."""

import compileall
from pathlib import Path

import airflow_delta


def compile_modules() -> None:
    """Write the bytecode of our modules; a process that imports them would compile them anew where none may be written."""
    compileall.compile_dir(Path(airflow_delta.__file__).parent, quiet=2)
