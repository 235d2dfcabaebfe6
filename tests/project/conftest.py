import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def install_wheel(wheel, tmp_path_factory):
    """Install the wheel with extras, such as ``"[spark]"``, into an empty environment, and return its Python."""

    def install(extras):
        environment = tmp_path_factory.mktemp("environment") / "venv"
        python = environment / "bin" / "python"
        requirement, constraints = f"{wheel}{extras}", str(ROOT / "constraints.txt")
        if uv := shutil.which("uv"):
            subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True)
            subprocess.run([uv, "pip", "install", "--quiet", "--python", python, "-c", constraints, requirement], check=True)
        else:
            subprocess.run([sys.executable, "-m", "venv", environment], check=True)
            subprocess.run([python, "-m", "pip", "install", "-qq", "-c", constraints, requirement], check=True)
        return python

    return install
