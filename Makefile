# Waybill: `make help` lists the targets.
#
# Set-up needs Python >= 3.11 with venv, Node >= 20 with npm, and make; all else it brings into this folder. Each of its
# steps leaves a stamp in build/setup when, and only when, it has ended well, and runs again when what it depends on changes.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Where it is set, every process compiles every module again: seconds for each command that a test types.
unexport PYTHONDONTWRITEBYTECODE

# A home that can't be written: the package managers keep what they download here instead.
ifneq ($(shell { test -w "$(HOME)/.cache" || { test ! -e "$(HOME)/.cache" && test -w "$(HOME)"; }; } && test -d "$(HOME)" && echo yes),yes)
export UV_CACHE_DIR := $(CURDIR)/build/cache/uv
export PIP_CACHE_DIR := $(CURDIR)/build/cache/pip
export npm_config_cache := $(CURDIR)/build/cache/npm
endif

DONE := build/setup
STEPS := $(addprefix $(DONE)/,python waybill node tools java gmp dapp explorer)
VENV := .venv/bin
# A compiler that py-solc-x installed; the tools step takes it up when it appears.
NATIVE_SOLC := $(wildcard $(HOME)/.solcx/solc-v0.8.34)

.PHONY: help setup demo test test-all lint fmt docs dist lock snapshots bench-gas bench-relay bench-index clean

help:  ## Show this list
	@echo "Waybill. Every target sets up first what it needs."
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: $(STEPS)  ## Bring in all that Waybill needs
	@echo "Set-up is complete. Next: make demo"

demo: $(STEPS)  ## Run three chains, route, stall, retry, act on all or none, report (KEEP=1 leaves it running)
	@$(VENV)/waybill demo $(if $(KEEP),--keep)

test: $(STEPS)  ## Run the linters and the tests, in about ten minutes
	@$(VENV)/python -m scripts.run_tests

test-all: $(STEPS) $(DONE)/proofs  ## Run all tests, the long ones too, in about an hour (SEED=n repeats a run)
	@$(VENV)/python -m scripts.run_tests --all $(if $(SEED),--seed $(SEED))

lint: $(STEPS)  ## Check style, types and layers
	@$(VENV)/python -m scripts.run_tests --lint

fmt: $(STEPS)  ## Format Python and Solidity
	@$(VENV)/ruff check --fix-only --quiet .
	@$(VENV)/ruff format .
	@build/tools/bin/forge fmt

docs: $(STEPS)  ## Build the documentation's site into build/site
	@$(VENV)/python -m scripts.build_docs

dist: $(STEPS)  ## Make a release's files in build/dist: wheel, npm packages, SBOM, checksums (TAG=v0.1.0: check it)
	@$(VENV)/python -m scripts.dist $(if $(TAG),--tag '$(TAG)')

lock: $(DONE)/python  ## Make the lock files again from pyproject.toml and package.json (UPGRADE=1: newest versions)
	@$(VENV)/python scripts/lock.py $(if $(UPGRADE),--upgrade)

snapshots: $(STEPS)  ## Write the ABIs, the storage layout and the gas again after a change of the contracts
	@build/tools/bin/forge build --quiet
	@$(VENV)/python scripts/generate_abi.py
	@$(VENV)/python -m bench.router_gas --snapshot

bench-gas: $(STEPS)  ## Measure the router's gas beside its peers' (PEERS=folder: compile and measure those, too)
	@$(VENV)/python -m bench.router_gas $(if $(PEERS),--peers '$(PEERS)')

bench-relay: $(STEPS)  ## Measure the relayer: transitions, deliveries, pickup, waste
	@$(VENV)/python -m bench.relay

bench-index: $(STEPS)  ## Measure the index: ingest, lifecycles, retry requests (LOGS=1000000 MESSAGES=10000000 ARGS="--only requests")
	@$(VENV)/python -m bench.index --logs $(or $(LOGS),1000000) --messages $(or $(MESSAGES),10000000) $(ARGS)

clean:  ## Remove everything that set-up, builds and tests made
	rm -rf .venv node_modules dapp/node_modules dapp/dist bridge/web/static/explorer*.js* bridge/deploy/compiled build cache broadcast .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(DONE):
	@mkdir -p $@

$(DONE)/python: requirements.lock scripts/setup_python.py | $(DONE)
	@echo "setup 1/8  Python packages into .venv (about 1.2 GB, most of it PySpark)"
	@python=$$(scripts/check-machine) && "$$python" scripts/setup_python.py $@
	@touch $@

$(DONE)/waybill: pyproject.toml $(DONE)/python
	@echo "setup 2/8  Waybill itself, editable"
	@$(VENV)/uv pip install --quiet --python $(VENV)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(DONE)/node: package-lock.json package.json .npmrc | $(DONE)
	@echo "setup 3/8  npm packages into node_modules (Foundry, solc, OpenZeppelin, forge-std)"
	@scripts/check-machine > /dev/null
	@npm ci --loglevel=error
	@touch $@

$(DONE)/tools: scripts/setup_tools.py bridge/devnet/fetch.py scripts/solc-wasm $(DONE)/node $(NATIVE_SOLC) | $(DONE)/python
	@echo "setup 4/8  Links to the native forge, anvil, cast and to solc in build/tools/bin"
	@$(VENV)/python -m scripts.setup_tools
	@touch $@

$(DONE)/java: requirements-java.lock scripts/setup_java.py indexer/spark/java.py indexer/spark/jars.py $(DONE)/python
	@echo "setup 5/8  Java and Delta Lake for Spark"
	@$(VENV)/python -m scripts.setup_java
	@touch $@

$(DONE)/gmp: bridge/devnet/gmp_artifacts.toml bridge/devnet/fetch.py | $(DONE)/python
	@echo "setup 6/8  The GMPs' contracts into build/gmp"
	@$(VENV)/python -m scripts.fetch_gmp_artifacts
	@touch $@

$(DONE)/dapp: dapp/package-lock.json dapp/package.json dapp/.npmrc | $(DONE)/node
	@echo "setup 7/8  The dApp kit's npm packages into dapp/node_modules"
	@npm ci --prefix dapp --ignore-scripts --loglevel=error
	@touch $@

$(DONE)/explorer: $(wildcard dapp/explorer/*.ts dapp/example/*.ts dapp/src/*.ts dapp/src/abi/*.ts) $(DONE)/dapp
	@echo "setup 8/8  The explorer's script into bridge/web/static"
	@npm --prefix dapp --silent run explorer
	@touch $@

$(DONE)/proofs: requirements-proofs.lock scripts/setup_proofs.py $(DONE)/python
	@echo "set-up of proofs  halmos and slither into build/tools/proofs"
	@$(VENV)/python scripts/setup_proofs.py
	@touch $@
