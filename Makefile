# The one list of commands. `make` alone prints it.
#
#   PYTHON       interpreter for the environment (3.11 or newer)
#   TORCH_INDEX  address of a package index with CPU builds of torch. On Linux a plain torch is a CUDA build of several
#                gigabytes: set this unless you have an NVIDIA GPU, or unless pip already finds a CPU build.
#   OUTPUT_DIR   where `make demo` puts its runs
#   TEST_PROCESSES  how many processes share the test suite (default 2)

PYTHON ?= python3
TORCH_INDEX ?=
OUTPUT_DIR ?= outputs
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST_ARGS ?=
# What checks the browser code. Without npm those checks are skipped and say so; in .ci/run they fail.
NODE_TOOLS := $(if $(shell command -v npm),node_modules/.installed)
# Tests of one file stay in one process. More than one a core and runs of real processes starve each other.
TEST_PROCESSES ?= 2

# Bytecode caches halve the start of every process of a run.
unexport PYTHONDONTWRITEBYTECODE
export OMP_NUM_THREADS := 1

.PHONY: help install demo test test-faults lint lint-js format screenshots bench bench-rundir bench-trl docs constraints resolve clean

help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

install: $(STAMP) ## set up .venv with everything that demo, test and lint need

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "prl needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(if $(TORCH_INDEX),$(BIN)/pip install --index-url $(TORCH_INDEX) -c constraints.txt torch)
	$(BIN)/pip install -c constraints.txt -e '.[train,dev]'
	@touch $(STAMP)

demo: install ## train a tiny model by SFT and asynchronous RL on this machine, and say how it went
	$(BIN)/python examples/reverse_text/demo.py --output-dir $(OUTPUT_DIR)

node_modules/.installed: package.json
	npm install --no-audit --no-fund --ignore-scripts --silent
	@touch $@

test: install $(NODE_TOOLS) ## the test suite (at most 12 minutes on two cores)
	$(BIN)/pytest -m "not faults" -n $(TEST_PROCESSES) --dist loadfile $(PYTEST_ARGS)

test-faults: install ## the long fault matrices
	$(BIN)/pytest -m faults $(PYTEST_ARGS)

lint: install lint-js ## ruff, mypy, import contracts, types of the browser code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lint-js: install $(NODE_TOOLS) ## types of the browser code, and that its libraries are what package.json says
	$(if $(NODE_TOOLS),node_modules/.bin/tsc -p .,@echo 'npm is not installed: the browser code is not checked')
	$(if $(NODE_TOOLS),$(BIN)/python tools/vendor.py --check)

format: install ## apply ruff's formatting and safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install ## the benchmarks of docs/benchmarks.md, but the one against TRL
	$(BIN)/python benchmarks/demo.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/env_server.py
	$(BIN)/python benchmarks/rundir_write.py
	$(BIN)/python benchmarks/status.py

screenshots: install ## pictures of the dashboard's pages, below docs/pictures (needs Chromium)
	$(BIN)/python tools/screenshots.py

bench-rundir: install ## reading and writing recorded runs of real size (generates 17 GB below build/ once)
	$(BIN)/python benchmarks/rundir.py --dir build/rundir

bench-trl: install ## seconds a step beside TRL, which gets an environment of its own under build/
	$(BIN)/python benchmarks/vs_trl.py

docs: install ## write docs/configuration.md, docs/rules.md and docs/dashboard-api.md anew
	$(BIN)/python tools/config_reference.py
	$(BIN)/python tools/rules_reference.py
	$(BIN)/python tools/api_reference.py

resolve: install ## check that one set of versions still serves all extras together
	$(BIN)/uv pip compile pyproject.toml --all-extras -c constraints.txt --universal --python-version 3.11 -q -o /dev/null

constraints: install ## write constraints.txt anew
	{ echo '# Versions that resolve together over all extras. Made by `make constraints`; a check in .ci/run keeps it true.'; \
	  $(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --no-annotate --no-header -q; } > constraints.new
	mv constraints.new constraints.txt

clean: ## remove the environment and caches, never a run
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
