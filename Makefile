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
STEPS := $(addprefix $(DONE)/,python waybill node tools java gmp dapp explorer proofs classes)
VENV := .venv/bin
SUITES := $(VENV)/python -m scripts.test_suites
# A compiler that py-solc-x installed; the tools step takes it up when it appears.
NATIVE_SOLC := $(wildcard $(HOME)/.solcx/solc-v0.8.34)

.PHONY: help setup demo test release abi snapshots sweep soak sim operate wheel dist docs lint test-solidity test-release test-proofs test-twins test-python test-simulation test-anvil test-spark test-kafka test-web bench bench-gas bench-index bench-relay bench-trust bench-web prove slither twins fmt lock addresses clean

help:  ## Show this list
	@echo "Waybill. Every target sets up first what it needs."
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: $(STEPS)  ## Bring in all that Waybill needs
	@echo "Set-up is complete. Next: make demo"

# A first demonstration does not wait for what makes later starts of Spark quicker.
demo: $(filter-out $(DONE)/classes,$(STEPS))  ## Run three chains, route, stall, retry, act on all or none, report (KEEP=1 leaves it running)
	@$(VENV)/waybill demo $(if $(KEEP),--keep)

test: $(STEPS)  ## Run linters, types, layers and every test suite
	@$(SUITES)

lint: $(STEPS)  ## Check style, types, layers, names and prose
	@$(SUITES) lint

test-solidity: $(STEPS)  ## Run the contracts' tests
	@$(SUITES) solidity

test-release: $(STEPS)  ## Run the router's tests on the code that is deployed
	@$(SUITES) release

test-proofs: $(STEPS)  ## Prove claims about the contracts with halmos
	@$(SUITES) proofs

test-twins: $(STEPS)  ## Show tests fail on three vulnerable twins of the router, drawn by the commit
	@$(SUITES) twins

test-python: $(STEPS)  ## Run the Python unit tests
	@$(SUITES) unit

test-simulation: $(STEPS)  ## Play a thousand storms in a simulated world
	@$(SUITES) simulation

test-anvil: $(STEPS)  ## Run the tests against real anvil chains
	@$(SUITES) anvil

test-spark: $(STEPS)  ## Run the tests on a real Spark session
	@$(SUITES) spark

test-kafka: $(STEPS)  ## Run the tests of streams with a real Apache Kafka
	@$(SUITES) kafka

test-web: $(STEPS)  ## Run the tests of the dApp kit and its page
	@$(SUITES) web

bench: bench-gas bench-relay bench-index bench-web  ## Measure everything there is a measure for

bench-web: $(STEPS)  ## Measure the explorer's pages with a million messages in the store
	@$(VENV)/python -m bench.explorer

bench-trust: $(STEPS)  ## Measure the tripwire: forgeries paused, blocks until then, false pauses (FORGERIES=200 MESSAGES=100000)
	@$(VENV)/python -m bench.trust --forgeries $(or $(FORGERIES),200) --messages $(or $(MESSAGES),100000)

bench-gas: $(STEPS)  ## Measure the router's gas beside its peers' (PEERS=folder: compile and measure those, too)
	@$(VENV)/python -m bench.router_gas $(if $(PEERS),--peers '$(PEERS)')

bench-relay: $(STEPS)  ## Measure the relayer: transitions, deliveries, pickup, waste
	@$(VENV)/python -m bench.relay

bench-index: $(STEPS)  ## Measure the index: ingest, lifecycles, retry requests (LOGS=1000000 MESSAGES=10000000 ARGS="--only requests")
	@$(VENV)/python -m bench.index --logs $(or $(LOGS),1000000) --messages $(or $(MESSAGES),10000000) $(ARGS)

prove: $(STEPS)  ## Prove with longer lists and payloads, and run fuzz tests and invariants for long
	@$(VENV)/python -m scripts.prove --deep
	@$(VENV)/python -m scripts.release
	@FOUNDRY_PROFILE=prove build/tools/bin/forge test

slither: $(STEPS)  ## Let slither read the contracts: every finding mended or explained in docs/static-analysis.toml
	@$(VENV)/python -m scripts.static_analysis

release: $(STEPS)  ## Compile the contracts as they are deployed, into build/release
	@$(VENV)/python -m scripts.release

abi: $(STEPS)  ## Write the ABIs and the storage layout again after a change of the contracts
	@build/tools/bin/forge build --quiet
	@$(VENV)/python scripts/generate_abi.py

sweep: $(STEPS)  ## Run the long sweeps whole, of which make test runs samples (ONLY=folder or file)
	@$(VENV)/python -m pytest $(or $(ONLY),tests) -m sweep -v --durations=0 --capture=no -o faulthandler_timeout=0

soak: $(STEPS)  ## Let an index run beside busy, reorganising chains and see that its memory stays flat (MINUTES=30)
	@$(VENV)/python -m bench.index_soak --minutes $(or $(MINUTES),30)

sim: $(STEPS)  ## Play seeded histories of a world full of faults (SEEDS=1000 FIRST=0 STORM=8 WORLDS=lying|following|both)
	@$(VENV)/python -m scripts.simulate --seeds $(or $(SEEDS),1000) --first $(or $(FIRST),0) --storm $(or $(STORM),8) $(if $(WORLDS),--worlds $(WORLDS))

snapshots: abi  ## Write all that is compared with the contracts: ABIs, storage layout, gas
	@$(VENV)/python -m bench.router_gas --snapshot

operate: $(STEPS)  ## Write the pages on settings, metrics and alerts again after a change of them
	@$(VENV)/python -m scripts.generate_operate

wheel: $(STEPS)  ## Build the Python package into build/dist
	@$(VENV)/python -m hatchling build --target wheel --directory build/dist

dist: $(STEPS)  ## Make a release's files in build/dist: wheel, npm packages, SBOM, checksums (TAG=v0.1.0: check it)
	@$(VENV)/python -m scripts.dist $(if $(TAG),--tag '$(TAG)')

docs: $(STEPS)  ## Build the documentation's site into build/site
	@$(VENV)/python -m scripts.build_docs

twins: $(STEPS)  ## Show the tests fail on vulnerable twins of the router (TWINS=part of a name: only those)
	@$(VENV)/python -m scripts.twins $(TWINS)

fmt: $(STEPS)  ## Format Python and Solidity
	@$(VENV)/ruff check --fix-only --quiet .
	@$(VENV)/ruff format .
	@build/tools/bin/forge fmt

lock: $(DONE)/python  ## Make the lock files again from pyproject.toml and package.json (UPGRADE=1: newest versions)
	@$(VENV)/python scripts/lock.py $(if $(UPGRADE),--upgrade)

addresses: $(DONE)/python  ## Make the table of the GMPs' addresses again and print what changed (UPGRADE=1: newest registries)
	@$(VENV)/python -m scripts.network_addresses $(if $(UPGRADE),--upgrade)

clean:  ## Remove everything that set-up, builds and tests made
	rm -rf .venv node_modules dapp/node_modules dapp/dist bridge/web/static/explorer*.js* bridge/deploy/compiled build cache broadcast .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(DONE):
	@mkdir -p $@

$(DONE)/python: requirements.lock scripts/setup_python.py | $(DONE)
	@echo "setup 1/10  Python packages into .venv (about 1.2 GB, most of it PySpark)"
	@python=$$(scripts/check-machine) && "$$python" scripts/setup_python.py $@
	@touch $@

$(DONE)/waybill: pyproject.toml $(DONE)/python
	@echo "setup 2/10  Waybill itself, editable"
	@$(VENV)/uv pip install --quiet --python $(VENV)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(DONE)/node: package-lock.json package.json .npmrc | $(DONE)
	@echo "setup 3/10  npm packages into node_modules (Foundry, solc, OpenZeppelin, forge-std)"
	@scripts/check-machine > /dev/null
	@npm ci --loglevel=error
	@touch $@

$(DONE)/tools: scripts/setup_tools.py bridge/devnet/fetch.py scripts/solc-wasm $(DONE)/node $(NATIVE_SOLC) | $(DONE)/python
	@echo "setup 4/10  Links to the native forge, anvil, cast and to solc in build/tools/bin"
	@$(VENV)/python -m scripts.setup_tools
	@touch $@

$(DONE)/java: requirements-java.lock scripts/setup_java.py indexer/spark/java.py $(DONE)/python
	@echo "setup 5/10  Java for Spark"
	@$(VENV)/python -m scripts.setup_java
	@touch $@

$(DONE)/gmp: bridge/devnet/gmp_artifacts.toml bridge/devnet/fetch.py | $(DONE)/python
	@echo "setup 6/10  The GMPs' contracts into build/gmp"
	@$(VENV)/python -m scripts.fetch_gmp_artifacts
	@touch $@

$(DONE)/dapp: dapp/package-lock.json dapp/package.json dapp/.npmrc | $(DONE)/node
	@echo "setup 7/10  The dApp kit's npm packages into dapp/node_modules"
	@npm ci --prefix dapp --ignore-scripts --loglevel=error
	@touch $@

$(DONE)/explorer: $(wildcard dapp/explorer/*.ts dapp/example/*.ts dapp/src/*.ts dapp/src/abi/*.ts) $(DONE)/dapp
	@echo "setup 8/10  The explorer's script into bridge/web/static"
	@npm --prefix dapp --silent run explorer
	@touch $@

$(DONE)/proofs: requirements-proofs.lock scripts/setup_proofs.py $(DONE)/python
	@echo "setup 9/10  halmos and slither into build/tools/proofs"
	@$(VENV)/python scripts/setup_proofs.py
	@touch $@

$(DONE)/classes: indexer/spark/class_archive.py $(DONE)/java $(DONE)/waybill
	@echo "setup 10/10  Spark's Java classes into one file, which halves the time in which Spark starts"
	@$(VENV)/python -m indexer.spark.class_archive build/tools/spark-classes.jsa
	@touch $@
