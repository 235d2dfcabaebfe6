"""What the matrices of versions have in common: runs of pytest, their reports, and the table of outcomes."""

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
    """Whether a file of tests has slow ones."""
    text = path.read_text()
    return "mark.slow" in text or "slow_after(" in text


def run_pytest(python, files, mark, report, minutes, *options):
    """Run these tests, and leave the report once they have ended; as a failed one when they took longer than this."""
    report.parent.mkdir(parents=True, exist_ok=True)
    unfinished, output = report.with_suffix(".unfinished"), report.with_suffix(".txt")
    print(f"{output.relative_to(ROOT)}: ", end="", file=sys.stderr, flush=True)
    # Half the time is more than any test takes: by then it has stopped, and the output should say where.
    settings = {"faulthandler_timeout": 30 * minutes, "junit_suite_name": commit()}
    command = [python, "-m", "pytest", *files, "-m", mark, *options, "-p", "no:cacheprovider", f"--junitxml={unfinished}"]
    command += ["--compile-queries", *(part for name, value in settings.items() for part in ("-o", f"{name}={value}"))]
    environment = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "VIRTUAL_ENV")}
    # Submitted drivers and their workers are of this environment, and import the checkout, too.
    environment |= {"PATH": f"{python.parent}{os.pathsep}{environment['PATH']}"}
    environment |= {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)}
    for former in (report, unfinished):
        former.unlink(missing_ok=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored, and pytest would inherit that
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
    """As Ctrl+C does, so that fixtures end what they have started; then for good."""
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
    """The commit that is tested, with a plus where files differ from it."""
    command = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def outcomes(report):
    """Each test's name and outcome in a report, with pytest's words."""
    for case in ET.parse(report).iter("testcase"):
        kinds = (kind for kind in ("error", "failure", "skipped") if case.find(kind) is not None)
        kind = next(kinds, "passed")
        words = "" if kind == "passed" else case.find(kind).get("message")
        yield f"{case.get('classname')}::{case.get('name')}", "failed" if kind in {"error", "failure"} else kind, words


def commit_of(report):
    """The commit at which a report was made."""
    return ET.parse(report).find("testsuite").get("name")


def is_done(report, *, keeps_other_commits):
    """Whether there is a report of tests that passed, at this commit or at any."""
    if not report.exists() or any(outcome == "failed" for _, outcome, _ in outcomes(report)):
        return False
    return keeps_other_commits or commit_of(report) == commit()


def summarize(version, kind, reports, unit):
    """The line of the table, which counts reports by this unit; names of what failed are printed."""
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
