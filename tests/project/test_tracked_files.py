import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

REGISTRY = re.compile(r"(https?|file)://[^\s\"'`]*(pypi|simple\b|index|maven|artifactory|nexus)", re.IGNORECASE)
MACHINE = re.compile(r"(?<![\w.}~-])/(?:work|root|home|Users)/\w")


@pytest.fixture(scope="module")
def tracked():
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    return {name: (ROOT / name).read_text(errors="replace") for name in listing.stdout.split("\0") if (ROOT / name).is_file()}


@pytest.mark.parametrize("pattern", [REGISTRY, MACHINE], ids=["registry-address", "machine-path"])
def test_no_tracked_file_names_a_registry_or_this_machine(tracked, pattern):
    found = [f"{name}: {hit.group()}" for name, text in tracked.items() for hit in pattern.finditer(text)]
    assert found == []
