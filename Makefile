# Everything starts here; Python 3.11 or newer and make are all it takes.
#   make demo    decompose a photograph and say where the pictures are
#   make demo-sequence    the same for a small time-lapse, without a network
#   make test    the tests
#   make check   lint and types
#   make bench   the claims of speed that need no GPU and no data, measured on this machine
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCHMARKS := all_pairs dense_term evaluate photo prepare

.PHONY: demo demo-sequence test check bench format clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "unlit needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/python examples/demo_photo.py --out out/demo

demo-sequence: $(READY)
	$(BIN)/python examples/tiny_world.py --out out/demo-sequence

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py --json out/bench/$$name.json || exit 1; done

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache .hypothesis
