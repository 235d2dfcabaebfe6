import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_wheel_puts_nothing_but_the_package_into_site_packages(wheel):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"airflow_delta"}


def test_the_wheel_holds_every_module_and_the_job_scripts(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "airflow_delta").rglob("*.py")}
    jobs = {f"airflow_delta/_spark_jobs/{path.name}" for path in (ROOT / "spark_jobs").glob("*.py")}
    assert modules <= names
    assert jobs <= names
    assert jobs != set()
    assert "airflow_delta/py.typed" in names


def test_the_wheel_says_where_airflow_finds_the_provider(wheel):
    with zipfile.ZipFile(wheel) as archive:
        texts = {Path(name).name: archive.read(name).decode() for name in archive.namelist() if ".dist-info/" in name}
    assert (
        "[apache_airflow_provider]\nprovider_info = airflow_delta.get_provider_info:get_provider_info"
        in texts["entry_points.txt"]
    )
    assert "License-Expression: Apache-2.0" in texts["METADATA"]
    assert "Apache License" in texts["LICENSE"]
