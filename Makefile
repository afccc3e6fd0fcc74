# Every target works alone in a fresh clone: it makes the virtual environment first where there is none.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: install locked demo test lint types unit browser docs slow wheel versions format clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "miv needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

# The same versions with their hashes checked. torch comes first: with and without CUDA it has other hashes.
locked:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(INSTALLED)

demo: $(INSTALLED)
	$(BIN)/miv demo

# Two at a time, because mypy and Sphinx use one processor each. The tests, which use all, come last.
test: $(INSTALLED)
	$(MAKE) -j 2 lint types docs unit

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(INSTALLED)
	$(BIN)/mypy

# Each process gets half of the tests in their order, and takes over tests of the other when it is done.
unit: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n auto --dist worksteal

# The page is tested in a real browser. Without one those tests are skipped; this never fails. `make unit` installs none.
browser:
	@if [ -n "$$MIV_CHROMIUM" ] || command -v chromium >/dev/null || command -v chromium-browser >/dev/null; then exit 0; \
	elif [ "$$(id -u)" != 0 ]; then echo "The tests of the page are skipped: no Chromium, and only root can install it (apt-get install chromium)."; \
	elif ! command -v apt-get >/dev/null; then echo "The tests of the page are skipped: no Chromium, and no apt-get to install it. Set MIV_CHROMIUM to its path."; \
	elif { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium; } >/dev/null 2>&1; then echo "Installed Chromium for the tests of the page."; \
	else echo "The tests of the page are skipped: apt-get could not install Chromium."; fi

docs: $(INSTALLED)
	$(BIN)/sphinx-build -q -W --keep-going docs docs/_build/html
	@echo "Open docs/_build/html/index.html in a browser."

# Hypothesis draws the same examples in `make unit`, and others here.
PROPERTIES = $(shell grep -rlE '^from hypothesis' tests --include='test_*.py')
slow: $(INSTALLED) browser
	$(BIN)/pytest -q -m slow
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n auto --dist worksteal --hypothesis-profile=other_examples $(PROPERTIES)

# Builds the wheel, installs it alone into an empty environment, and verifies with it.
wheel: $(INSTALLED)
	$(BIN)/pytest -q -m slow tests/cli/test_wheel.py

# Trains and verifies with the lowest and with the newest versions that pyproject.toml allows.
versions: $(INSTALLED)
	$(BIN)/pytest -q -m slow tests/cli/test_versions.py

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis docs/_build docs/api
