# Every verb builds what it needs: `make demo` on a fresh clone is enough.
PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
BIN    := $(VENV)/bin

.PHONY: help demo test test-all package test-browser lint type format docs fuzz adversary audit mutation coverage bench bench-studies bench-report bench-transport check clean
.NOTPARALLEL: # two pips must not write one environment

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

demo: $(VENV)/viz.stamp ## cluster a small long-tailed data set, end to end
	$(BIN)/protocol-mvc demo $(ARGS)

# One thread per worker: torch would otherwise start JOBS x cores threads.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) $(ARGS)

test: $(VENV)/test.stamp ## the quick tests
	$(PYTEST)

test-all: $(VENV)/test.stamp ## the quick and the slow tests
	$(PYTEST) -m "not browser and not package"

# pytest looks at lines and branches together.
define ENOUGH_BRANCHES
import json, sys
share = json.load(open("build/coverage.json"))["totals"]["percent_branches_covered"]
sys.exit(f"only {share:.1f} % of the branches are covered" if share < 95 else 0)
endef
export ENOUGH_BRANCHES

coverage: $(VENV)/test.stamp ## the quick tests, and which branches they leave out; fails below 95 %
	$(PYTEST) --cov --cov-report=term --cov-report=json:build/coverage.json
	$(BIN)/python -c "$$ENOUGH_BRANCHES"

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

test-browser: $(VENV)/browser.stamp ## the HTML report in Chromium, which it installs; see screenshots/
	command -v chromium || { $(SUDO) apt-get update && $(SUDO) apt-get install -y --no-install-recommends chromium; }
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m browser $(ARGS)

package: $(VENV)/test.stamp ## build wheel and sdist, run the demo from the wheel in a clean environment
	$(BIN)/python -m pytest -m package $(ARGS)

lint: $(VENV)/dev.stamp ## ruff (rules and format) and import-linter (layers)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

type: $(VENV)/test.stamp $(VENV)/dev.stamp ## mypy, strict
	$(BIN)/mypy

format: $(VENV)/dev.stamp ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/docs.stamp ## the site, build/docs/index.html, from the pages of docs/ and the docstrings
	$(BIN)/sphinx-build -q -W --keep-going docs build/docs

fuzz: $(VENV)/test.stamp ## 20,000 cases of rubbish for all that takes input, recorded; see docs/reliability.md
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m tests.fuzz.campaign $(ARGS)

adversary: $(VENV)/test.stamp ## 1,000 cases of a hostile tester, recorded, and their table in docs/reliability.md
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m tests.fuzz.campaign --adversary $(ARGS)
	$(BIN)/python -m benchmarks report --update docs/reliability.md

audit: $(VENV)/audit.stamp ## known vulnerabilities of the pinned versions; asks a service on the internet
	$(BIN)/pip-audit --strict --requirement constraints.txt --disable-pip --no-deps $(ARGS)

mutation: $(VENV)/mutation.stamp ## small mistakes in transport and losses: which do the tests not notice?
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.mutation.campaign $(ARGS)

# Data sets are searched in the folder PROTOCOL_DATA: make bench PROTOCOL_DATA=path/to/data
BENCH = $(BIN)/python -m benchmarks

bench: $(VENV)/viz.stamp $(VENV)/data.stamp $(VENV)/bench.stamp ## run and record the table of the README, and the ablation
	$(BENCH) quality --datasets all
	$(BENCH) run --methods leiden,protocol --datasets hdigit,fashion --ratios 0.1,0.5,0.9
	$(BENCH) ablation --datasets hdigit --ratios 0.1

bench-studies: $(VENV)/viz.stamp $(VENV)/data.stamp ## run, record and draw the paper's other studies on the digits
	for study in balanced-test convergence sensitivity tsne; do $(BENCH) $$study || exit 1; done

bench-report: $(VENV)/viz.stamp $(VENV)/data.stamp ## update the tables of docs from the records
	$(BENCH) report $(foreach page,docs/benchmarks.md docs/paper.md docs/reliability.md $(wildcard docs/methods/*.md),--update $(page))

bench-transport: $(VENV)/test.stamp ## measure the transport solver beside others and record it
	for study in agreement solvers memmap epoch grid random; do \
		$(BIN)/python -W ignore -m benchmarks transport $$study || exit 1; done

check: lint type docs test package ## all that a change must pass; continuous integration runs this

clean: ## remove the environment, caches and builds
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# <extra>.stamp = "the extra of that name is installed, at the tested versions".
$(VENV)/%.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$*]'
	@touch $@
