"""A running Airflow for the tests of a module, and a browser to open its pages."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.standalone.airflow_home import AirflowHome
from tests.standalone.postgres import missing, postgres

ONE_CORE = {
    "AIRFLOW_CONN_SPARK_ONE": json.dumps({"conn_type": "spark", "host": "local[1]", "extra": {"deploy-mode": "client"}})
}


@pytest.fixture(scope="module")
def airflow(request, tmp_path_factory):
    """An Airflow on PostgreSQL with the DAG files in the module's ``DAG_FILES``, and a process per component."""
    if reason := missing():
        pytest.skip(reason)
    with postgres() as database:
        home = AirflowHome(tmp_path_factory.mktemp("standalone") / "home", database=database, more=ONE_CORE)
        try:
            home.create(*request.module.DAG_FILES)
            home.start()
            yield home
        finally:
            home.stop()


@pytest.fixture(scope="module")
def standalone(request, tmp_path_factory):
    """An `airflow standalone` with the DAG files in the module's ``DAG_FILES``."""
    home = AirflowHome(tmp_path_factory.mktemp("standalone") / "home")
    try:
        home.create(*request.module.DAG_FILES)
        home.start("standalone")
        yield home
    finally:
        home.stop()


@dataclass(frozen=True)
class Browser:
    """A logged-in page of a headless Chromium.

    Attributes:
        page: Playwright's page.
        screenshots: Folder for screenshots.
    """

    page: Any
    url: str
    screenshots: Path

    def open(self, path):
        self.page.goto(f"{self.url}/{path.lstrip('/')}")

    def sees(self, *texts):
        for text in texts:
            self.page.get_by_text(text).first.wait_for(state="visible", timeout=60_000)

    def shoot(self, name, height=800):
        self.page.wait_for_timeout(1_000)  # until animations have ended
        self.page.screenshot(path=self.screenshots / f"{name}.png", clip={"x": 0, "y": 0, "width": 1280, "height": height})


@pytest.fixture(scope="module")
def browser(standalone, tmp_path_factory, request):
    """A browser for the module's `airflow standalone`; with ``SCREENSHOTS=1`` it stores screenshots in ``docs/images``."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium (Debian: apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright (pip install playwright)")
    pictures = (
        Path(__file__).parents[2] / "docs" / "images"
        if os.environ.get("SCREENSHOTS")
        else tmp_path_factory.mktemp("screenshots")
    )
    pictures.mkdir(exist_ok=True)
    with playwright.sync_playwright() as driver:
        process = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = process.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(60_000)
        page.goto(standalone.url)  # logs in; on Airflow 3.1 that always leads to the home page
        page.wait_for_load_state("networkidle")
        yield Browser(page, standalone.url, pictures)
        process.close()
