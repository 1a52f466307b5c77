# Two commands do all the set-up on a machine with Python >= 3.11, make and a package index:
#   make demo    a worked flow with policies, run for real, no credential needed
#   make test    linters and the whole test suite
#   make chaos   a server under load, disturbed in every way: SEED=7 SECONDS=120
# More: make check (types and coverage too), make bench, make docs (the pages as a site),
# make lock, make clean.

PYTHON ?= python3
JOBS ?= 4
PIP := -m pip --disable-pip-version-check --quiet

.PHONY: demo test check lint types coverage chaos bench docs lock clean help

help:
	@sed -n 's/^#   *//p' Makefile

.venv/ready: requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "heddle needs Python 3.11 or newer; say which: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	.venv/bin/python $(PIP) install --require-hashes -r requirements-dev.lock
	.venv/bin/python $(PIP) install --no-deps --editable .
	@touch $@

.venv-demo/ready: requirements.lock pyproject.toml $(shell find actors plugins_host heddle -name '*.py')
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "heddle needs Python 3.11 or newer; say which: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/python $(PIP) install --require-hashes -r requirements.lock
	.venv-demo/bin/python $(PIP) install --no-deps .
	@touch $@

demo: .venv-demo/ready
	@PATH="$(CURDIR)/.venv-demo/bin:$$PATH" examples/demo/run

test: .venv/ready lint
	.venv/bin/python -m pytest -q -n $(JOBS) --dist worksteal

lint: .venv/ready
	.venv/bin/ruff check --no-cache .
	.venv/bin/ruff format --no-cache --check .
	.venv/bin/lint-imports --no-cache

types: .venv/ready
	.venv/bin/mypy
	.venv/bin/pyright

coverage: .venv/ready
	.venv/bin/coverage erase
	.venv/bin/coverage run -m pytest -q
	.venv/bin/coverage combine --quiet
	.venv/bin/coverage report

check: lint types coverage

chaos: .venv/ready
	.venv/bin/python -m tests.pressure $(if $(SEED),--seed $(SEED)) \
		$(if $(SECONDS),--seconds $(SECONDS))

bench: .venv/ready
	.venv/bin/python -m bench

.venv-docs/ready: requirements-docs.lock
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python $(PIP) install --require-hashes -r requirements-docs.lock
	@touch $@

docs: .venv/ready .venv-docs/ready
	.venv/bin/python -m docs.printing
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict
	@echo "The pages are in build/site; begin with build/site/index.html."

lock: .venv/ready
	.venv/bin/python $(PIP) install uv
	.venv/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
		--no-annotate --no-header --python-version 3.11 pyproject.toml -o requirements.lock
	.venv/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
		--no-annotate --no-header --python-version 3.11 --group dev pyproject.toml \
		-o requirements-dev.lock
	.venv/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
		--no-annotate --no-header --python-version 3.11 --group docs \
		-o requirements-docs.lock

clean:
	rm -rf .venv .venv-demo .venv-docs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
