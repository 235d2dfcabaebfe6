"""Compiles our modules as pip does on installation, even where the environment disables writing bytecode."""

import compileall
from pathlib import Path

import airflow_delta


def compile_modules() -> None:
    """Write the bytecode of our modules; without it, each process would compile them again if it may not write bytecode."""
    compileall.compile_dir(Path(airflow_delta.__file__).parent, quiet=2)
