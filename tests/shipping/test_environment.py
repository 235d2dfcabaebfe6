"""What executors need as an archive: pip is real, the wheels it finds are small ones of the tests."""

import json
import re
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_delta.cli.main import app, main
from airflow_delta.core.errors import InvalidStatementError
from airflow_delta.shipping import environment
from airflow_delta.shipping.archive import build_archive
from airflow_delta.shipping.environment import EXTRAS, Environment, build_environment, pack, settings
from airflow_delta.shipping.errors import PipMissingError, WheelsNotFoundError

THIS = f"cp{sys.version_info.major}{sys.version_info.minor}"
CLUSTER = ("manylinux_2_28_x86_64",)


def wheel(folder, name, tag, needs=()):
    number = version(name)
    info = f"{name.replace('-', '_')}-{number}.dist-info"
    files = {
        f"{name}/__init__.py": f"__version__ = {number!r}\n",
        f"{name}/tests/test_it.py": "",
        f"{name}/include/it.h": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n"
        + "".join(f"Requires-Dist: {needed}\n" for needed in needs),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name}-tool = {name}:tool\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{name}-{number}-{tag}.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


@pytest.fixture(autouse=True)
def wheels(tmp_path, monkeypatch):
    """A folder in the place of the index; the wheels in it are for this Python on a Linux cluster."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, value in {"CONFIG_FILE": "/dev/null", "NO_INDEX": "1", "FIND_LINKS": folder, "NO_CACHE_DIR": "1"}.items():
        monkeypatch.setenv(f"PIP_{name}", str(value))
    native = f"{THIS}-{THIS}-{CLUSTER[0]}"
    wheel(folder, "pyarrow", native)
    wheel(folder, "pandas", native, needs=("six>=1",))
    wheel(folder, "six", "py2.py3-none-any")
    wheel(folder, "s3fs", "py3-none-any")
    return folder


def test_it_holds_our_code_and_the_packages_with_what_they_need_in_the_versions_of_this_installation(tmp_path):
    archive = zipfile.ZipFile(build_environment(tmp_path, Environment(platforms=CLUSTER)))
    names = set(archive.namelist())
    assert {"pyarrow/__init__.py", "pandas/__init__.py", "six/__init__.py"} <= names
    assert set(zipfile.ZipFile(build_archive(tmp_path)).namelist()) <= names
    assert archive.read("pyarrow/__init__.py").decode() == f"__version__ = {version('pyarrow')!r}\n"
    assert f"pyarrow-{version('pyarrow')}.dist-info/METADATA" in names
    assert not [name for name in names if re.search(r"^bin/|/RECORD$|^\w+/(tests|include)/|__pycache__|s3fs", name)]


@pytest.mark.slow
def test_equal_inputs_give_equal_bytes_and_an_equal_name_wherever_it_is_made(tmp_path):
    places = [tmp_path / "here", tmp_path / "elsewhere" / "deeper"]
    for place in places:
        place.mkdir(parents=True)
    first, again = (build_environment(place, Environment(platforms=CLUSTER)) for place in places)
    assert re.fullmatch(rf"airflow-delta-python-3\.\d+-{CLUSTER[0]}-[0-9a-f]{{16}}\.zip", first.name)
    assert (first.name, first.read_bytes()) == (again.name, again.read_bytes())
    assert str(tmp_path).encode() not in b"".join(map(zipfile.ZipFile(first).read, zipfile.ZipFile(first).namelist()))


@pytest.mark.slow
def test_extras_and_further_packages_are_chosen(tmp_path):
    chosen = Environment(extras=("s3",), packages=("six",), platforms=CLUSTER)
    assert chosen.requirements() == [f"{name}=={version(name)}" for name in ("pandas", "pyarrow", "s3fs", "six")]
    assert "s3fs/__init__.py" in zipfile.ZipFile(build_environment(tmp_path, chosen)).namelist()


def test_of_a_package_that_lies_in_two_folders_the_version_that_python_imports_is_packed(tmp_path, monkeypatch):
    for name, number in (("six", "0.0.1"), ("Six", "0.0.2")):
        info = tmp_path / "other" / f"{name}-{number}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "other")])
    names = zipfile.ZipFile(build_environment(tmp_path, Environment(platforms=CLUSTER))).namelist()
    assert f"six-{version('six')}.dist-info/METADATA" in names


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"extras": ("airflow",)}, "the extra 'airflow'.*expected one of s3, gcs, azure"),
        ({"packages": ("no-such-package",)}, "'no-such-package'.*expected an installed one"),
        ({"packages": ("--index-url=http://evil",)}, "expected an installed one"),
        ({"packages": ("",)}, "the package ''.*expected an installed one"),
        ({"python": "3"}, "the Python '3'.*such as 3.11"),
        ({"platforms": ("linux x86",)}, "the platform 'linux x86'.*such as manylinux_2_28_x86_64"),
    ],
)
def test_a_choice_that_is_invalid_is_refused_before_anything_is_fetched(chosen, message):
    with pytest.raises(InvalidStatementError, match=message):
        Environment(**chosen)


@pytest.mark.parametrize("other", [{"python": "3.7", "platforms": CLUSTER}, {"platforms": ("win_arm64",)}])
def test_a_python_or_a_platform_without_wheels_is_named_with_what_pip_said(tmp_path, other):
    with pytest.raises(WheelsNotFoundError) as raised:
        pack(str(tmp_path / "code"), Environment(**other))
    error = raised.value
    assert (error.python, error.platform) == (Environment(**other).python, other["platforms"][0])
    assert f"pyarrow=={version('pyarrow')}" in error.packages
    assert "No matching distribution found for p" in error.detail
    assert not (tmp_path / "code").exists()


def test_a_python_without_pip_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "find_spec", lambda name: None)
    with pytest.raises(PipMissingError, match=f"expected pip in {sys.executable}, found none.*-m ensurepip"):
        build_environment(tmp_path, Environment())


@pytest.mark.parametrize(
    ("uri", "archive"),
    [
        ("s3://lake/code/e.zip", "s3a://lake/code/e.zip"),
        ("s3a://lake/code/e.zip", "s3a://lake/code/e.zip"),
        ("gs://lake/code/e.zip", "gs://lake/code/e.zip"),
        ("gcs://lake/code/e.zip", "gs://lake/code/e.zip"),
        ("/srv/code/e.zip", "/srv/code/e.zip"),
        ("file:///srv/code/e.zip", "/srv/code/e.zip"),
    ],
)
def test_the_settings_name_the_archive_as_spark_does(uri, archive):
    assert settings(uri) == {"spark.archives": f"{archive}#airflow-delta", "spark.executorEnv.PYTHONPATH": "airflow-delta"}


@pytest.mark.parametrize(("folder", "sign"), [("a,b", "','"), ("a#b", "'#'"), ("b/,#/c", "',' and '#'")])
def test_a_folder_whose_name_spark_would_split_is_refused_before_anything_is_fetched(tmp_path, folder, sign):
    with pytest.raises(InvalidStatementError, match=f"expected a folder without {sign}, where") as refused:
        pack(f"{tmp_path}/{folder}", Environment())
    assert f"{tmp_path}/{folder}" in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["wheels"]


def test_a_blank_python_is_no_version(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["pack", str(tmp_path), "--python", ""])
    assert "expected a minor version, such as 3.11" in " ".join(capsys.readouterr().err.split())


def test_a_folder_that_spark_has_no_name_for_is_refused_before_anything_is_fetched():
    with pytest.raises(InvalidStatementError, match=r"az://code.*abfss://container@account"):
        pack("az://code/lake", Environment())


def test_the_command_ships_once_and_prints_the_settings(tmp_path):
    command = ["pack", str(tmp_path / "code"), "--platform", CLUSTER[0]]
    shown = CliRunner().invoke(app, command, catch_exceptions=False).stdout
    [archive] = (tmp_path / "code").iterdir()
    time = archive.stat().st_mtime_ns
    printed = json.loads(CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False).stdout)
    assert printed == {"uri": str(archive), "conf": settings(str(archive))}
    assert [path.stat().st_mtime_ns for path in (tmp_path / "code").iterdir()] == [time]
    assert all(name in shown for name in printed["conf"])


def test_the_command_prints_a_typed_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["pack", str(tmp_path / "code"), "--extra", "moon", "--json"])
    assert ended.value.code == 2
    assert json.loads(capsys.readouterr().err)["code"] == "DELTA_INVALID_STATEMENT"


def test_the_extras_are_those_of_the_package():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    for extra, packages in EXTRAS.items():
        [line] = re.findall(rf"^{extra} = \[(.*)\]", text, re.MULTILINE)
        assert re.findall(r'"([\w-]+)', line) == list(packages)
