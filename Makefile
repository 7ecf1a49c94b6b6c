# Every target installs what it needs into .venv, and again when pyproject.toml changes.

PYTHON ?= python3
WORKLOAD ?= conv2d-n1-c256-h14-w14-o256-k3-s1
SMS ?= 32
TRIALS ?= 16
SECONDS ?= 60
SEED ?= 0

BIN := .venv/bin

# Modules are compiled when they are first imported, not by pip, which would compile all of them. If this variable
# were set, each of the hundreds of processes that tests start would compile them again.
export PYTHONDONTWRITEBYTECODE :=

# Some tests wait for a time limit or a process, so there is one worker more than cores. If OMP_NUM_THREADS is set,
# nproc takes it for the number of cores.
TEST_WORKERS ?= $(shell expr $$(env -u OMP_NUM_THREADS nproc) + 1)

# How long `make hunt` looks for counterexamples.
MINUTES ?= 10

TESTS := test hunt test-faults test-rehearsals test-notebooks test-docs test-kernel-tuner test-torch test-inductor test-triton test-ray
# When tests run in parallel, BLAS threads wait for each other: commands take 10 to 30% more processor time.
$(TESTS): export OMP_NUM_THREADS := 1

.PHONY: help tune service-demo test hunt test-faults test-rehearsals test-notebooks test-docs test-fresh test-kernel-tuner test-torch test-inductor test-triton test-ray docs check fuzz mutation reproduce release-check
.DELETE_ON_ERROR:

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1,/p' $(MAKEFILE_LIST) | while IFS=, read -r name what; do printf 'make %-16s %s\n' "$$name" "$$what"; done

tune: .venv/replay.stamp ## Find the fastest kernel for SMS streaming multiprocessors, from recorded measurements
	$(BIN)/costmodel tune $(WORKLOAD) --sms $(SMS) --trials $(TRIALS)

# In the order of their names: the longest files have few tests and would otherwise come last.
test: .venv/dev.stamp ## Run the tests
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder

# Round after round, until a test fails or the time is up (status 124).
hunt: .venv/dev.stamp ## Look for counterexamples to the property tests for MINUTES; each find becomes an @example
	@timeout $(MINUTES)m sh -c 'while $(BIN)/python -m pytest -q -x -n $(TEST_WORKERS) --hypothesis-profile hunt -m "hypothesis and not (torch or triton or ray)"; do :; done'; \
	test $$? -eq 124 && echo 'No counterexample in $(MINUTES) minutes.'

service-demo: .venv/service.stamp ## Tune three workloads with a database, builders and workers; kill some of the workers
	PYTHON=$(BIN)/python experiments/service_demo/run.sh

test-faults: .venv/dev.stamp ## Run the tests that kill, hang and interrupt workers
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile -m faults

test-rehearsals: .venv/dev.stamp ## Run the experiments on this CPU, at a reduced size
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile tests/experiments -m rehearsal

test-notebooks: .venv/notebooks.stamp ## Run and check the notebooks (four minutes)
	$(BIN)/python -m pytest -n auto --dist worksteal tests/notebooks -m notebook

test-kernel-tuner: .venv/kernel-tuner.stamp ## Run the tests of the Kernel Tuner plug-in (one minute)
	$(BIN)/python -m pytest tests/integrations/test_integrations_kernel_tuner.py tests/experiments/test_kernel_tuner.py

test-torch: .venv/torch.stamp ## Run the tests that need torch, which the other targets skip
	$(BIN)/python -m pytest -n auto --dist loadfile -m torch

test-inductor: .venv/torch.stamp ## Run the tests of the plug-in for torch.compile (half a minute, no GPU)
	$(BIN)/python -m pytest -m torch tests/integrations/test_integrations_inductor.py

test-triton: .venv/triton.stamp ## Run the tests of Triton kernels (installs a 300 MB compiler; needs no GPU)
	$(BIN)/python -m pytest -n auto --dist worksteal -m triton

test-ray: .venv/ray.stamp ## Run the tests of the Ray engine (installs 80 MB; one minute)
	$(BIN)/python -m pytest -m ray tests/service

docs: .venv/docs.stamp ## Build the documentation into out/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo 'Read it: $(BIN)/python -m http.server --directory out/site'

test-docs: .venv/docs.stamp ## Run the commands and code blocks of README and docs/ (ten minutes)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist worksteal tests/docs -m docs

test-fresh: .venv/docs.stamp ## Run the blocks of PAGES (default: all) from new environments with what each page says to install
	$(BIN)/python tests/docs/fresh.py $(PAGES)

check: .venv/dev.stamp ## Check style, format, types and import direction
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

fuzz: .venv/dev.stamp ## Attack every reader with altered files for SECONDS, from SEED
	$(BIN)/python tests/fuzz/attack.py --seconds $(SECONDS) --seed $(SEED)

mutation: .venv/mutation.stamp ## Mutate the code at random and count the mutants that tests detect (under an hour)
	PYTHON=$(BIN)/python experiments/mutation/run.sh

reproduce: .venv/dev.stamp ## Recompute the figures of README.md and docs/ and compare them (under an hour on two cores)
	PYTHON=$(BIN)/python experiments/reproduce/run.sh $(if $(CACHES),--caches $(CACHES))

release-check: .venv/dev.stamp ## Recompute the figures at this commit, and write which came out into docs/release-check.md
	PYTHON=$(BIN)/python experiments/reproduce/run.sh --release docs/release-check.md $(if $(CACHES),--caches $(CACHES)) $(STEP:%=--only %) $(if $(PROCESSES),--processes $(PROCESSES)) $(if $(WITHIN),--within $(WITHIN))

# A replay needs no TVM: `make tune` installs 300 MB less than the tests. `costmodel evaluate` also compares xgboost.
.venv/replay.stamp: extras := xgboost-cpu
.venv/service.stamp: extras := tvm,dask,postgresql,postgresql-server
.venv/dev.stamp: extras := tvm,xgboost-cpu,mlflow,dev
.venv/mutation.stamp: extras := tvm,xgboost-cpu,mlflow,dev,mutation
.venv/notebooks.stamp: extras := tvm,xgboost-cpu,mlflow,dev,notebooks
.venv/kernel-tuner.stamp: extras := tvm,xgboost-cpu,mlflow,dev,kernel-tuner
.venv/torch.stamp: extras := tvm,xgboost-cpu,mlflow,dev,torch
.venv/triton.stamp: extras := tvm,xgboost-cpu,mlflow,dev,torch,triton,helion
.venv/ray.stamp: extras := tvm,xgboost-cpu,mlflow,dev,ray
.venv/docs.stamp: extras := tvm,xgboost-cpu,mlflow,dev,docs

.venv/%.stamp: pyproject.toml | .venv/bin/pip
	@echo 'Installing costmodel[$(extras)] into .venv: a minute or two.'
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[$(extras)]'
	@touch $@

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.version_info[:2] in ((3, 11), (3, 12)) or sys.exit("Python 3.11 or 3.12 is needed, but $(PYTHON) is Python %d.%d: name another one, as in make tune PYTHON=python3.12." % sys.version_info[:2])'
	@$(PYTHON) -m venv --upgrade-deps .venv  # the pip that comes with Python 3.11 takes twice as long
