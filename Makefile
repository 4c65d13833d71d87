# The README's two commands: make demo, make test.
PYTHON ?= python3
BIN := .venv/bin
# Two OpenMP threads on a busy machine can be far slower than one.
export OMP_NUM_THREADS ?= 1
# Data sets that are not embedded: the folder beside this checkout, when it is there.
export TACIT_DATA ?= $(wildcard ../shared/data)

.PHONY: demo test test-slow test-all lint fuzz bench browser figures docs lock sbom sizes wheel clean

.venv/demo: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e '.[sign,train,figures]'
	touch $@

.venv/dev: .venv/demo
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

# Spark, Ray and Daft: large, so that their tests are skipped where they cannot be installed.
.venv/engines: .venv/dev
	-$(BIN)/pip install --quiet -c constraints.txt -e '.[engines]' && touch $@

demo: .venv/demo
	$(BIN)/tacit demo

lint: .venv/dev
	$(BIN)/ruff check src tests benchmarks papers tools
	$(BIN)/ruff format --check src tests benchmarks papers tools
	$(BIN)/mypy

# What runs filters in the browser, from npm; without npm the tests of the page are skipped.
browser: .venv/demo
	-$(BIN)/python -m tacit.serve.browser

# A file stays with one process, so that what its tests share is made once, and every run is alike.
test: lint browser
	$(BIN)/pytest -n 2 --dist loadfile

test-slow: browser .venv/engines
	$(BIN)/pytest -n 2 --dist loadfile -m slow

test-all: test test-slow

# Mutated bundles: make fuzz CASES=100000
CASES ?= 20000
fuzz: .venv/dev
	$(BIN)/python tools/fuzz.py --cases $(CASES)

bench: .venv/dev
	$(BIN)/python benchmarks/adult.py
	$(BIN)/python -m papers.codebook.floor
	$(BIN)/python -m papers.codebook.training_rows
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python -m papers.minimax-filter.protocol
	$(BIN)/python -m papers.minimax-filter.adversaries
	$(BIN)/python benchmarks/release.py
	$(BIN)/python benchmarks/engines.py
	$(BIN)/python benchmarks/serve.py
	$(BIN)/python benchmarks/frontier.py
	$(BIN)/python -m papers.eigan.federated
	$(BIN)/python -m papers.minimax-filter.personal

# A wheel that has the browser's files, so that who installs it needs no npm.
wheel: browser
	$(BIN)/pip wheel --quiet --no-deps -w dist .

# Megabytes and seconds of every install; it makes an environment for each, in a temporary folder.
sizes: .venv/demo
	$(BIN)/python benchmarks/install.py

# The figure of the README.
figures: .venv/demo
	$(BIN)/tacit demo
	cp tacit-demo/figure.svg docs/demo.svg

# The documentation, into site/; open site/index.html.
docs: .venv/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Versions and hashes of every package, from what constraints.txt allows now; and a list of what is installed.
lock: .venv/dev
	$(BIN)/pip install --quiet --dry-run --ignore-installed --report build-report.json -c constraints.txt '.[dev]'
	$(BIN)/python tools/supply.py lock < build-report.json > requirements.lock.new
	mv requirements.lock.new requirements.lock && rm build-report.json

sbom: .venv/dev
	$(BIN)/python tools/supply.py sbom > sbom.json

clean:
	rm -rf .venv build dist site *.egg-info src/*.egg-info tacit-demo
