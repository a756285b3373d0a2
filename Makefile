# Every target sets up what it needs in .venv and is quick when it is there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# All versions come from one file; the variable also reaches isolated builds.
export PIP_CONSTRAINT := $(CURDIR)/requirements.lock
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP := $(BIN)/python -m pip install --quiet

.DEFAULT_GOAL := help
.PHONY: help run zoo test weight test-slow test-lowest check format docs spelling smoke release-check bench browser page-types lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: $(VENV)/.base ## the mass-spring-damper at full size, into runs/msd-lqr and runs/msd
	$(BIN)/taskspace run msd-lqr
	$(BIN)/taskspace schedule runs/msd-lqr --ask 'regret <= 0.2'
	$(BIN)/taskspace run msd

test: $(VENV)/.dev ## the test suite
	$(BIN)/python -m tests.warm
	$(BIN)/python -m pytest -n 2

zoo: $(VENV)/.base ## published problems: docs/zoo.md and its figure; what is in runs/zoo is not computed again
	$(BIN)/python examples/zoo/make_zoo.py

test-slow: $(VENV)/.dev ## the tests that take more than half a minute each
	$(BIN)/python -m pytest -m slow

test-lowest: ## the quick core of the tests on Python 3.11 with the lowest versions allowed
	rm -rf $(VENV)-lowest && python3.11 -m venv $(VENV)-lowest
	PIP_CONSTRAINT=$(CURDIR)/requirements-lowest.txt $(VENV)-lowest/bin/python -m pip \
	  install --quiet --editable ".[dask,sim]" pytest hypothesis mpmath psutil
	$(VENV)-lowest/bin/python -m pytest -W default tests/runs/test_runs.py \
	  tests/cli/test_cli.py tests/test_spaces.py tests/cover

check: $(VENV)/.docs ## what CI runs: format, lint, types, layer contract, spelling, the site, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(MAKE) spelling
	$(MAKE) weight
	$(MAKE) docs
	$(MAKE) test

spelling: $(VENV)/.dev ## spelling, and the words that this project does not use
	$(BIN)/codespell *.md docs src examples benchmarks tools
	$(BIN)/python tools/prose.py

weight: $(VENV)/.dev ## lines, modules, options, tests and docs against the budget in pyproject.toml
	$(BIN)/python tools/weight.py

smoke: $(VENV)/.dev ## the wheel in a clean environment: the commands of docs/quickstart-table.md
	$(BIN)/python tools/release_check.py --quick

release-check: $(VENV)/.docs ## before a release: metadata, docs, golden files, wheel and sdist on each Python
	$(MAKE) docs
	$(BIN)/python -m pytest -n 0 -k "golden or format" tests/test_package.py tests/runs/test_golden.py \
	  tests/performance/test_golden_matrices.py tests/deploy/test_files.py tests/cover/test_verify.py
	$(BIN)/python tools/release_check.py

format: $(VENV)/.dev ## format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.docs ## the documentation site, into site/; opens from disk
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "Open site/index.html"

bench: $(VENV)/.bench ## all benchmarks, each printing ratios to named peers
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

browser: ## Chromium for the tests of the page (Debian, as root)
	command -v chromium && command -v chromedriver || \
	  (apt-get update && apt-get install --yes chromium chromium-driver)

page-types: ## check the types of the page's modules (needs npm and a network)
	npx --yes --package typescript@7.0.2 tsc -p src/taskspace/show/page/web

lock: ## renew requirements.lock and requirements.hashes from pyproject.toml
	rm -rf $(VENV)-lock && $(PYTHON) -m venv $(VENV)-lock # the oldest Python: it needs most
	PIP_CONSTRAINT= $(VENV)-lock/bin/python -m pip install --quiet --upgrade pip
	PIP_CONSTRAINT= $(VENV)-lock/bin/python -m pip install --quiet "torch==2.13.0"
	PIP_CONSTRAINT= $(VENV)-lock/bin/python -m pip install --quiet hatchling -e ".[all]" --group dev --group bench --group docs
	( echo "# Made by 'make lock'. Every version that CI and the Makefile use."; \
	  $(VENV)-lock/bin/python -m pip freeze --all --exclude-editable \
	  | sed -E 's/\+cpu$$//; s/ @ .*torch.*/==2.13.0/' ) > requirements.lock
	PIP_CONSTRAINT= $(VENV)-lock/bin/python tools/hash_lock.py
	rm -rf $(VENV)-lock

clean: ## remove .venv and caches; runs/ stays
	rm -rf $(VENV) $(VENV)-lowest .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/.pip: requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	@touch $@

$(VENV)/.base: $(VENV)/.pip pyproject.toml
	@echo "Installing taskspace into $(VENV) (about a minute the first time) ..."
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "Installing the test tools and extras into $(VENV) ..."
	$(PIP) --editable ".[all]" --group dev
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PIP) --group bench
	@touch $@

$(VENV)/.docs: $(VENV)/.dev mkdocs.yml
	$(PIP) --group docs
	@touch $@
