# `make demo` and `make test` need only Python 3.11 or newer with venv, and make.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin

.PHONY: demo test lint clean

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test]"
	touch $@

demo: $(VENV)/.ready
	mkdir -p out
	$(RUN)/vsr simulate configs/biped.yaml --out out/biped.gif

test: $(VENV)/.ready
	$(RUN)/ruff check .
	$(RUN)/python -m pytest -n 2 --dist loadfile

lint: $(VENV)/.ready
	$(RUN)/ruff check .
	$(RUN)/pyright

clean:
	rm -rf $(VENV) out .pytest_cache .ruff_cache .hypothesis
