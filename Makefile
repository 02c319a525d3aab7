# `make` lists the targets. Each one sets up .venv first when that is missing or out of date.

PYTHON ?= python3
# Stages at once; empty: what fits on this machine.
JOBS ?=
AT_ONCE = $(if $(JOBS),-j $(JOBS))
# Threads that have nothing to do sleep (lib/reproduction/pipeline/run.py).
export OMP_WAIT_POLICY ?= PASSIVE
UV_VERSION := 0.13.8
PIP_AUDIT_VERSION := 2.10.1

BIN := .venv/bin
UV := $(BIN)/uv
READY := .venv/.stamp
# Outputs and execution counts stay in committed notebooks; what differs by machine does not.
# The same options are in .pre-commit-config.yaml.
ALL := $(wildcard notebooks/*.ipynb notebooks/appendix/*.ipynb)
STRIP := $(BIN)/nbstripout --keep-output --keep-count --keep-id --extra-keys \
	'metadata.papermill metadata.language_info.version metadata.vscode cell.metadata.papermill cell.metadata.vscode'

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup reproduce quick study controls why dose decide photos class rehearse notebooks numbers site lab test test-units test-others hard hard-runs hard-input \
	audit lint format bench lock clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'PYTHON=python3.12 chooses the Python of .venv (3.11 to 3.13), JOBS=4 runs four stages at once.'

setup: $(READY)  ## Make .venv with the pinned packages of requirements.lock

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
		2>/dev/null || { \
		echo "setup: $(PYTHON) is $$($(PYTHON) --version 2>/dev/null || echo missing);" \
			'needs Python 3.11, 3.12 or 3.13; choose one with: make setup PYTHON=python3.12' >&2; \
		exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# uv links packages from its cache, so a second clone costs seconds.
$(READY): requirements.lock pyproject.toml | $(UV)
	$(UV) pip install --python $(BIN)/python --compile-bytecode --require-hashes -r requirements.lock
	$(UV) pip install --python $(BIN)/python --no-deps --no-build-isolation -e .
	$(BIN)/python -c 'import relevit; print("setup: relevit", relevit.__version__, "is ready")'
	@touch $@

reproduce: setup  ## Run the whole suite with the workshop preset (34 to 59 min on 2 cores)
	$(BIN)/python -m reproduction.pipeline workshop $(AT_ONCE)
	@$(MAKE) --no-print-directory site PRESET=workshop

quick: setup  ## Run the whole suite with the quick preset (6 to 8 min on 2 cores)
	$(BIN)/python -m reproduction.pipeline quick $(AT_ONCE)
	@$(MAKE) --no-print-directory site PRESET=quick

notebooks: setup  ## Store the outputs of a finished `make reproduce` in the notebooks
	$(BIN)/python -m reproduction.pipeline.notebooks workshop
	$(STRIP) $(ALL)
	$(BIN)/python docs/quoted.py
	$(BIN)/python tools/context_pictures.py verdicts

numbers: setup  ## Write the numbers in all prose anew from docs/results (make notebooks does it, too)
	$(BIN)/python docs/quoted.py
	$(BIN)/python tools/printed_intervals.py >/dev/null
	$(BIN)/python docs/quoted.py

# The final table, and what relevance adds in other worlds.
study: setup  ## When does it help, which cure, which map? (about 18 hours on 2 cores, docs/context.md)
	$(BIN)/python -m reproduction.pipeline study $(AT_ONCE)

controls: setup  ## Is it the object, is the original done, does it last? (three to four hours on 2 cores)
	$(BIN)/python -m reproduction.pipeline controls $(AT_ONCE)
	$(BIN)/python -m reproduction.pipeline controls_things $(AT_ONCE)
	$(BIN)/python -m reproduction.runs.studies controls
	$(BIN)/python tools/context_pictures.py controls

why: setup  ## Is it the map on the object, or the stopped gradient? (two to five hours on 2 cores)
	$(BIN)/python -m reproduction.pipeline why $(AT_ONCE) $(if $(KEPT),--kept)
	$(BIN)/python -m reproduction.runs.studies why
	$(BIN)/python tools/context_pictures.py why

decide: setup  ## Decide more claims: the paper's own terms, five to ten seeds (about two hours on 2 cores)
	$(BIN)/python -m reproduction.pipeline decide $(AT_ONCE)
	$(BIN)/python -m reproduction.claims.decided
	$(BIN)/python tools/context_pictures.py decide
	$(BIN)/python tools/context_pictures.py verdicts

photos: setup  ## Do cures hold on photographs? DATA=folder of PACS (three to four hours on 2 cores)
	$(if $(DATA),mkdir -p outputs && ln -sfn "$(abspath $(DATA))" outputs/PACS)
	$(BIN)/python -m reproduction.pipeline photos $(AT_ONCE)
	$(BIN)/python -m reproduction.pipeline photos_elsewhere $(AT_ONCE)
	$(BIN)/python -m reproduction.runs.studies photos
	$(BIN)/python tools/context_pictures.py photos

dose: setup  ## Does relevance add what an original leans by, on photographs? DATA=folder of PACS (two to three hours on 2 cores)
	$(if $(DATA),mkdir -p outputs && ln -sfn "$(abspath $(DATA))" outputs/PACS)
	$(BIN)/python -m reproduction.pipeline dose $(AT_ONCE) $(if $(KEPT),--kept)
	$(BIN)/python -m reproduction.runs.studies dose
	$(BIN)/python tools/context_pictures.py dose

class: setup  ## Students' notebooks, handout and quiz, and slides with notes, in outputs/class
	$(BIN)/python -m reproduction.lessons.exercises

rehearse: setup  ## Rehearse the paper preset on replicas of its data (5 to 10 min on 2 cores)
	PYTHONPATH=tests $(BIN)/python -m replicas $(AT_ONCE)

# Of what the notebooks store; with PRESET=quick of that run, which must be finished.
PAGES = outputs/$(if $(PRESET),$(PRESET)/)site
site: setup  ## Make the pages: notebooks, docs, API, gallery (PRESET=quick: of that run)
	@$(BIN)/sphinx-build -M html . $(PAGES) -c docs -D preset=$(PRESET) -q
	@echo 'Open $(PAGES)/html/index.html'

lab: setup  ## Open copies of the notebooks in JupyterLab (FRESH=1: new copies)
	@$(BIN)/python -m reproduction.lessons.lab $(if $(FRESH),--fresh)
	JUPYTER_CONFIG_PATH=profiles/lab $(BIN)/jupyter-lab

# Two streams side by side, each with half of the cores.
HALF = $(shell $(BIN)/python -c 'from relevit.base.device import cores; print(max(1, cores() // 2))')
OUTPUTS := tests/notebooks/test_outputs.py

test: setup  ## Run all tests, and the notebooks, whose tagged outputs must not change
	@OMP_NUM_THREADS=$(HALF) $(MAKE) --no-print-directory --keep-going --jobs=2 test-units test-others
	$(BIN)/python -m reproduction.pipeline quick $(AT_ONCE)
	$(BIN)/python -m pytest $(OUTPUTS)
	$(BIN)/python -m pytest --nbval-lax --nbval-current-env $(STARTED)

# Run once more, cell by cell as a reader does: nbval.
STARTED := $(patsubst %,notebooks/%.ipynb,00_start 02_finetune 99_report)

UNITS := tests/unit tests/golden tests/workshop tests/tools
test-units:
	$(BIN)/python -m pytest $(UNITS)
test-others:
	$(BIN)/python -m pytest tests $(addprefix --ignore ,$(UNITS) tests/hard $(OUTPUTS))

hard: setup  ## Abuse it: kills, full disks, two callers, bad input
	@$(MAKE) --no-print-directory --keep-going --jobs=2 hard-runs hard-input

# Runs keep to one core each.
hard-runs:
	$(BIN)/python -m pytest tests/hard/test_runs.py
hard-input:
	OMP_NUM_THREADS=$(HALF) $(BIN)/python -m pytest tests/hard --ignore tests/hard/test_runs.py

# In an environment of its own, as it is no part of what it looks at. It never fails.
audit: setup  ## Ask for known holes in the pinned packages (needs a network)
	-$(UV) tool run pip-audit==$(PIP_AUDIT_VERSION) -r requirements.lock --require-hashes --disable-pip

lint: setup  ## Check style, formatting, imports and the notebooks' metadata
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	@$(STRIP) --verify $(ALL) || { \
		echo 'lint: these notebooks carry metadata of one machine; run: make format' >&2; exit 1; }

format: setup  ## Mend what lint can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(STRIP) $(ALL)

bench: setup  ## Measure speed
	$(BIN)/python tools/bench.py

lock: $(UV)  ## Pin the dependencies of pyproject.toml anew (UPGRADE=1: to the newest versions)
	$(UV) pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
		--custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade) --quiet -o requirements.lock

clean:  ## Remove outputs (copies of notebooks, too) and caches; .venv stays
	rm -rf outputs/* docs/api .snakemake .pytest_cache .ruff_cache build dist
	find . -name .venv -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -print0 \
		| xargs -0 rm -rf
