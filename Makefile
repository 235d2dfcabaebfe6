# `make demo` and `make test` need no other setup: .ci/setup makes .venv, finds Java, then runs the command.
RUN := .ci/setup

.PHONY: help demo test test-core test-slow test-spark-matrix test-airflow-matrix lint types imports check docs constraints clean
help:
	@echo "make demo         run the example DAG for three days on local Spark and show what it did"
	@echo "make test         the tests, without the slow ones (make test-slow runs these)"
	@echo "make test-core    those of the core and the command line: without Java, Airflow, Spark and emulated stores"
	@echo "make test-spark-matrix  the tests of the data plane and the jobs on Spark 4.0 to 4.3"
	@echo "make test-airflow-matrix  the tests that need Airflow on Airflow 3.0 to 3.3"
	@echo "make check        tests, linters, types, import contracts"
	@echo "make docs         build the documentation into build/docs"
	@echo "make constraints  resolve the pins in constraints.txt anew"

demo:
	@$(RUN) python dags

# Two processes, each with a JVM of its own; a file's tests stay together because they share fixtures. Files keep their order:
# those with few tests are the slow ones here, and xdist would put them last, where one of them would leave a core idle.
test:
	@$(RUN) pytest -m "not slow" --numprocesses 2 --dist loadfile --no-loadscope-reorder

# Only the folders that tests/conftest.py marks as `core`: the others cannot be imported without Airflow.
test-core:
	@.ci/setup --core pytest tests/core tests/cli tests/watch -m "core and not slow and not emulator" \
		--numprocesses 2 --dist loadfile --no-loadscope-reorder

test-slow:
	@$(RUN) pytest -m slow --compile-queries --hypothesis-profile=search

# Every test of the data plane and the jobs on each version of Spark: `make test-spark-matrix VERSIONS=4.0` for one of them,
# VERSIONS="4.0 --quick" without its slow tests. An interrupted run resumes where it stopped. Without VERSIONS, it also runs the
# tests over Spark Connect on two versions, and the quick ones with the oldest supported version of each package.
test-spark-matrix:
	@.ci/setup --java .ci/test-spark-matrix $(VERSIONS)
	@$(if $(VERSIONS),,.ci/setup --java .ci/test-spark-matrix 4.0 4.2 --connect)
	@$(if $(VERSIONS),,.ci/setup --java .ci/test-spark-matrix 4.0 4.2 --connect-slow)
	@$(if $(VERSIONS),,.ci/setup --java .ci/test-spark-matrix 4.0 --least --quick)

# Each version in an environment of its own; an interrupted run resumes. `make test-airflow-matrix VERSIONS="3.0 unit"`: a part.
test-airflow-matrix:
	@$(RUN) .ci/test-airflow-matrix $(VERSIONS)

lint:
	@$(RUN) ruff check
	@$(RUN) ruff format --check

types:
	@$(RUN) mypy

imports:
	@$(RUN) lint-imports

check:
	@.ci/run

docs:
	@$(RUN) docs/site/build

# Needs uv. --universal: one file for every Python and platform, distinguished by markers.
constraints:
	uv pip compile pyproject.toml --quiet --upgrade --universal --all-extras --python-version 3.11 --no-annotate \
		--custom-compile-command "make constraints" --output-file constraints.txt

clean:
	rm -rf .venv .demo build
