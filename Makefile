# Two commands do all the set-up on a machine with Python >= 3.11, make and a package index:
#   make demo    a worked flow with policies, run for real, no credential needed
#   make test    linters and the whole test suite
#   make chaos   a server under load, disturbed in every way: SEED=7 SECONDS=120
#   make fuzz    odd bytes for all that reads what strangers send: TARGET=frames SECONDS=60
# More: make bench-compare BASE=rev (this tree beside a revision), make check (types, coverage, secrets and dependencies too), make bench, make docs (the pages as a
# site), make screenshots (the pictures in them), make audit (what is known of the dependencies; needs the index), make lock, make clean.

PYTHON ?= python3
JOBS ?= 4
PIP := -m pip --disable-pip-version-check --quiet

.PHONY: demo test check lint types coverage secrets dependencies audit chaos fuzz fuzz-replay bench bench-compare docs \
	screenshots lock clean help

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
	.venv/bin/coverage run -m pytest -q -n $(JOBS) --dist worksteal
	.venv/bin/coverage combine --quiet
	.venv/bin/coverage report

.venv-audit/ready: requirements-audit.lock
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python $(PIP) install --require-hashes -r requirements-audit.lock
	@touch $@

secrets: .venv-audit/ready
	.venv-audit/bin/python -m tests.supply.secrets

audit: .venv-audit/ready
	.venv-audit/bin/python -m tests.supply.audit

# The same where the index can be asked; elsewhere that is said, and all else is checked.
dependencies: .venv-audit/ready
	.venv-audit/bin/python -m tests.supply.audit --if-told

check: lint types secrets dependencies coverage

chaos: .venv/ready
	.venv/bin/python -m tests.pressure $(if $(SEED),--seed $(SEED)) \
		$(if $(SECONDS),--seconds $(SECONDS))

# A target that takes no bytes which break it says so; one that does leaves them in a file.
.venv-fuzz/ready: requirements-fuzz.lock
	$(PYTHON) -m venv .venv-fuzz
	.venv-fuzz/bin/python $(PIP) install --require-hashes --only-binary atheris \
		-r requirements-fuzz.lock || { echo "atheris, which make fuzz uses, has no package" \
		"for this Python and system: on Linux, try make fuzz PYTHON=python3.12"; exit 1; }
	@touch $@

fuzz: .venv-fuzz/ready
	.venv-fuzz/bin/python -m tests.fuzz $(if $(TARGET),--target $(TARGET)) \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) \
		$(if $(CORPUS),--corpus $(CORPUS))

fuzz-replay: .venv/ready
	@test -n "$(FILE)" || { echo "say which input: make fuzz-replay FILE=build/fuzz/…"; exit 2; }
	.venv/bin/python -m tests.fuzz --replay $(FILE) $(if $(TARGET),--target $(TARGET))

bench: .venv/ready
	.venv/bin/python -m bench $(ONLY) $(if $(QUICK),--quick)

bench-compare: .venv/ready
	@test -n "$(BASE)" || { echo "say with what: make bench-compare BASE=rev"; exit 2; }
	.venv/bin/python -m bench --compare $(BASE) $(if $(ROUNDS),--rounds $(ROUNDS)) \
		$(if $(QUICK),--quick) $(SUBJECTS)

.venv-docs/ready: requirements-docs.lock
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python $(PIP) install --require-hashes -r requirements-docs.lock
	@touch $@

screenshots: .venv/ready
	.venv/bin/python -m docs.screenshots

docs: .venv/ready .venv-docs/ready
	.venv/bin/python -m docs.printing
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --quiet --strict
	@echo "The pages are in build/site; begin with build/site/index.html. To search in them:"
	@echo "  python3 -m http.server 8000 --bind 127.0.0.1 --directory build/site"

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
	.venv/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
		--no-annotate --no-header --python-version 3.11 --group fuzz pyproject.toml \
		-o requirements-fuzz.lock
	.venv/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
		--no-annotate --no-header --python-version 3.11 --group audit \
		-o requirements-audit.lock

clean:
	rm -rf .venv .venv-demo .venv-audit .venv-docs .venv-fuzz build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
