# The one way in. Everything is made inside this folder: .venv, build/ and runs/.
#
#   PYTHON    the Python 3.10 to 3.13 that .venv is made from
#   PIP_ARGS  passed to pip. torch must be a CPU build: where pip's index serves CUDA builds, name
#             an index or a folder with the CPU wheel, such as PIP_ARGS='--find-links DIR'
#   ARGS      passed to the trainer (make train) or to pytest (make test)
#   DEVICE    cpu, or npu: emulated NPUs (make train)

PYTHON ?= python3
PIP_ARGS ?=
ARGS ?=
DEVICE ?= cpu

PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --no-cache-dir
TORCHRUN := $(PY) -m torch.distributed.run --rdzv_backend c10d --rdzv_endpoint localhost:0
EMULATED := $(if $(filter npu,$(DEVICE)),$(PY) -m torchrec_ascend.emulator --)
KERNELS := $(shell find kernels -type f)

.PHONY: help venv build emulator lint test train bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s  %s\n", $$1, $$2 }' Makefile

venv: .venv/.installed ## make .venv from requirements/cpu.txt

build: .venv/.built ## compile the kernels and install the package, editable, in .venv

emulator: build ## build the emulated CANN and fetch torch_npu for it, in build/emulator
	PIP_ARGS='$(PIP_ARGS)' $(PY) -m torchrec_ascend.emulator --build

lint: venv ## ruff and mypy
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy

test: lint emulator ## lint and the whole test suite
	$(PY) -m pytest $(ARGS)

train: $(if $(filter npu,$(DEVICE)),emulator,build) ## train a DLRM on MovieLens-100k on two CPU ranks, or on emulated NPUs
	$(EMULATED) $(TORCHRUN) --nproc_per_node 2 -m torchrec_ascend.dlrm \
	  --config configs/movielens.yaml --device $(DEVICE) --pipeline sparse_dist $(ARGS)

bench: build ## time recat, unrecat and a training step against upstream
	$(PY) tests/benchmarks/recat.py
	$(PY) tests/benchmarks/step.py
	$(PY) tests/benchmarks/selftest.py
	$(PY) tests/benchmarks/recat_dma.py
	$(PY) tests/benchmarks/lookup.py

clean: ## remove all that make made, except runs/
	rm -rf .venv build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/.installed: requirements/cpu.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "Python 3.10 to 3.13 is needed, and PYTHON=$(PYTHON) is not:" \
	       "$$($(PYTHON) --version 2>&1). Name another, such as PYTHON=python3.12." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) install --no-deps $(PIP_ARGS) -r requirements/cpu.txt
	@$(PY) -c 'import torch, sys; sys.exit(torch.version.cuda is not None)' || { \
	  $(PIP) uninstall --quiet --yes torch; \
	  echo "pip brought a torch that is no CPU build. Name an index or a folder that has one" \
	       "with PIP_ARGS (see the top of the Makefile)." >&2; exit 1; }
	@touch $@

.venv/.built: .venv/.installed pyproject.toml $(KERNELS)
	@command -v $(CXX) >/dev/null || { \
	  echo "A C++ compiler is needed, and CXX=$(CXX) is not found." >&2; exit 1; }
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
