# `make demo` and `make test` need only Python 3.11 or newer with venv, and make.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin

OLDEST := .venv-oldest

.PHONY: demo test test-slow test-full test-oldest faults docs lint clean

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	touch $@

demo: $(VENV)/.ready
	rm -rf out/first_walker
	$(RUN)/vsr evolve first_walker --out out/first_walker
	$(RUN)/vsr simulate out/first_walker/best/seed-0.yaml --out out/first_walker/best.gif

test: $(VENV)/.ready
	$(RUN)/ruff check .
	$(RUN)/pyright
	$(RUN)/python -m pytest -n 2 --dist loadfile

test-slow: $(VENV)/.ready  # what `make test` leaves to continuous integration
	$(RUN)/python -m pytest -n 2 --dist loadfile -m 'slow and not full'

$(VENV)/.oracles: $(VENV)/.ready
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,oracles]"
	touch $@

test-full: $(VENV)/.oracles
	$(RUN)/python -m pytest -n 2 --dist loadfile -m ''

FAULTS ?= --minutes 5

faults: $(VENV)/.ready  # a campaign of fault injection: docs/develop/reliability.md
	mkdir -p out
	$(RUN)/python -m pytest tests/faults/test_faults.py -m campaign --figures out/faults.json $(FAULTS)

$(OLDEST)/.ready: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check $$($(OLDEST)/bin/python tests/oldest.py)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

test-oldest: $(OLDEST)/.ready  # with the oldest versions that pyproject.toml allows
	$(OLDEST)/bin/python -m pytest -n 2 --dist loadfile

$(VENV)/.docs: $(VENV)/.ready
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $@

docs: $(VENV)/.docs  # the site, in out/site; it needs no network
	$(RUN)/python docs/build.py

lint: $(VENV)/.ready
	$(RUN)/ruff check .
	$(RUN)/pyright

clean:
	rm -rf $(VENV) $(OLDEST) build dist out .cache .pytest_cache .ruff_cache .hypothesis
