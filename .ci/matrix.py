"""Shared by the version matrices: runs of pytest, their reports, and the table of outcomes."""

import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]


def head(product):
    """The first lines of the table."""
    return f"| {product} | tests | passed | skipped | failed | not run yet | commit |\n|---|---|---|---|---|---|---|"


def has_slow_tests(path):
    """Whether a test file has slow tests."""
    text = path.read_text()
    return "mark.slow" in text or "slow_after(" in text


def run_pytest(python, files, mark, report, minutes, *options):
    """Run the tests and write their report when they end; a run that exceeds the time limit is reported as failed."""
    report.parent.mkdir(parents=True, exist_ok=True)
    unfinished, output = report.with_suffix(".unfinished"), report.with_suffix(".txt")
    print(f"{output.relative_to(ROOT)}: ", end="", file=sys.stderr, flush=True)
    # No test takes half of the time limit: one that does hangs, and its stack traces should be in the output.
    settings = {"faulthandler_timeout": 30 * minutes, "junit_suite_name": commit()}
    command = [python, "-m", "pytest", *files, "-m", mark, *options, "-p", "no:cacheprovider", f"--junitxml={unfinished}"]
    command += ["--compile-queries", *(part for name, value in settings.items() for part in ("-o", f"{name}={value}"))]
    environment = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "VIRTUAL_ENV")}
    # Submitted drivers and their workers use this environment and import the checkout, too.
    environment |= {"PATH": f"{python.parent}{os.pathsep}{environment['PATH']}"}
    environment |= {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)}
    for former in (report, unfinished):
        former.unlink(missing_ok=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background processes, and pytest would inherit that
    with output.open("w") as printed:
        streams = {"stdin": subprocess.DEVNULL, "stdout": printed, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True, **streams)
        try:
            process.wait(60 * minutes)
        except subprocess.TimeoutExpired:
            print(f"stopped after {minutes} minutes: ", end="", file=sys.stderr)
            _end(process)
            _report_timeout(unfinished, files, minutes)
        except BaseException:
            _end(process)
            raise
    if unfinished.exists():
        unfinished.replace(report)
    print(output.read_text().strip().rpartition("\n")[2].strip("= "), file=sys.stderr)


def _end(process):
    """Interrupt like Ctrl+C, so that fixtures end what they have started; then kill."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(120)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _report_timeout(report, files, minutes):
    suite = ET.Element("testsuite", name=commit())
    case = ET.SubElement(suite, "testcase", classname=" ".join(files), name="all of it")
    ET.SubElement(case, "failure", message=f"stopped after {minutes} minutes")
    root = ET.Element("testsuites")
    root.append(suite)
    ET.ElementTree(root).write(report)


def commit():
    """The commit under test, followed by a plus if files differ from it."""
    command = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def outcomes(report):
    """Name and outcome (as pytest words it) of each test in a report."""
    for case in ET.parse(report).iter("testcase"):
        kinds = (kind for kind in ("error", "failure", "skipped") if case.find(kind) is not None)
        kind = next(kinds, "passed")
        words = "" if kind == "passed" else case.find(kind).get("message")
        yield f"{case.get('classname')}::{case.get('name')}", "failed" if kind in {"error", "failure"} else kind, words


def commit_of(report):
    """The commit that a report is of."""
    return ET.parse(report).find("testsuite").get("name")


def is_done(report, *, keeps_other_commits):
    """Whether there is a report without failures, of the given commit or of any."""
    if not report.exists() or any(outcome == "failed" for _, outcome, _ in outcomes(report)):
        return False
    return keeps_other_commits or commit_of(report) == commit()


def summarize(version, kind, reports, unit):
    """The line of the table, which counts reports in the given unit; also prints the names of failed tests."""
    counts, reasons, commits = Counter(), Counter(), {}
    made = [report for report in reports if report.exists()]
    for report in made:
        commits[commit_of(report)] = True
        for name, outcome, words in outcomes(report):
            counts[outcome] += 1
            if outcome == "skipped":
                reasons[words] += 1
            elif outcome == "failed":
                print(f"{version} failed {name}", file=sys.stderr)
    skipped = "; ".join(f"{count}: {reason}" for reason, count in reasons.most_common())
    missing = f"{len(reports) - len(made)} of {len(reports)} {unit}"
    cells = [version, kind, counts["passed"], f"{counts['skipped']}{skipped and f' ({skipped})'}", counts["failed"]]
    cells += [missing if len(made) < len(reports) else "", ", ".join(commits)]
    return f"| {' | '.join(map(str, cells))} |"
