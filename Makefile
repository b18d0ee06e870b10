# `make demo` and `make test` need only Python 3.11 or newer with venv, and make.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin

OLDEST := .venv-oldest
NEWEST := .venv-newest

.PHONY: demo gallery test test-slow test-full test-oldest test-newest faults docs lint clean

INSTALL := $(RUN)/python -m pip install --quiet --disable-pip-version-check

# What the program itself needs. Modules are compiled when they are first used, which is half of the installation.
$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --no-compile --editable .
	touch $@

$(VENV)/.tools: $(VENV)/.ready
	$(INSTALL) --editable ".[test]"
	touch $@

demo: $(VENV)/.ready  # a robot learns to walk; the report shows it in motion
	rm -rf out/first_walker
	$(RUN)/vsr evolve first_walker --out out/first_walker
	$(RUN)/python -c "import webbrowser; webbrowser.open('file://$(CURDIR)/out/first_walker/report.html')"

gallery: $(VENV)/.ready  # films of robots on one page that needs no network, and the banner of the README
	mkdir -p out
	$(RUN)/python -m vsr.evidence.gallery docs/gallery/gallery.yaml --page out/gallery.html --banner docs/banner.gif

test: $(VENV)/.tools
	$(RUN)/ruff check .
	$(RUN)/pyright
	$(RUN)/python -m pytest -n 2 --dist loadfile

test-slow: $(VENV)/.tools  # what `make test` leaves to continuous integration
	$(RUN)/python -m pytest -n 2 --dist loadfile -m 'slow and not full'

$(VENV)/.oracles: $(VENV)/.tools
	$(INSTALL) --editable ".[test,oracles]"
	touch $@

test-full: $(VENV)/.oracles
	$(RUN)/python -m pytest -n 2 --dist loadfile -m ''

FAULTS ?= --minutes 5

faults: $(VENV)/.tools  # a campaign of fault injection: docs/develop/reliability.md
	mkdir -p out
	$(RUN)/python -m pytest tests/faults/test_faults.py -m campaign --figures out/faults.json $(FAULTS)

$(OLDEST)/.ready: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check $$($(OLDEST)/bin/python tests/oldest.py)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

test-oldest: $(OLDEST)/.ready  # with the oldest versions that pyproject.toml allows
	$(OLDEST)/bin/python -m pytest -n 2 --dist loadfile

$(NEWEST)/.ready: pyproject.toml
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	touch $@

# Kernels are written from what JAX traces, which other versions trace otherwise: make test-newest PYTHON=python3.13
test-newest: $(NEWEST)/.ready
	$(NEWEST)/bin/python -m pytest -n 2 -m 'not full' tests/test_gpu_language.py tests/test_turns.py tests/test_loops.py

$(VENV)/.docs: $(VENV)/.ready
	$(INSTALL) --editable ".[docs]"
	touch $@

docs: $(VENV)/.docs  # the site, in out/site; it needs no network
	$(RUN)/python docs/build.py

lint: $(VENV)/.tools
	$(RUN)/ruff check .
	$(RUN)/pyright

clean:
	rm -rf $(VENV) $(OLDEST) $(NEWEST) build dist out .cache .pytest_cache .ruff_cache .hypothesis
