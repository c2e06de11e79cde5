# People and CI run the same commands. Each target sets up all it needs: the environment in .venv, packages, jars.
.DEFAULT_GOAL := help
BIN := .venv/bin

.PHONY: help setup demo test check docs chaos soak bench bench-full clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 12

setup: .venv/.ready ## the environment in .venv

.venv/.ready: requirements.lock pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh

demo: setup ## the orders platform, live; Ctrl-C stops it; MINUTES=3 ends and audits, CHAOS=1 kills a part every 20 s
	@exec $(BIN)/python examples/orders/demo.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(filter-out 0,$(CHAOS)),--chaos)

test: setup ## all tests, against real services; two sides, each with its own (one: ARGS="-n 0 tests/broker")
	@$(BIN)/penstock jars
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

check: setup ## ruff, mypy, import-linter, the pages that are made from the code
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python scripts/connector_pages.py --check

docs: setup ## write the pages that are made from the code
	@$(BIN)/python scripts/connector_pages.py

chaos: setup ## the long kills: ten minutes of captured changes, then a hundred kills into every sink; about an hour
	@$(BIN)/python -m tests.cdc.chaos
	@$(BIN)/python -m tests.guarantees.chaos $(ARGS)

soak: setup ## the orders platform for half an hour: its memory must be flat, its audit must pass
	@$(BIN)/penstock jars
	@$(BIN)/python -m tests.e2e.soak $(ARGS)

bench: setup ## three of Nexmark's queries, latency and first row beside PySpark and Flink, about 12 minutes
	@$(BIN)/penstock jars
	@$(BIN)/python bench/side_by_side.py $(ARGS)

bench-full: setup ## all of docs/benchmarks.md and docs/tuning.md, then what the other pages promise; about four hours
	@$(BIN)/penstock jars
	@$(BIN)/python bench/side_by_side.py --full --out docs/benchmarks
	@$(BIN)/python bench/tuning.py
	@for one in platform overhead late latency exactly_once large_batch cdc formats state many_keys; do echo "== $$one"; $(BIN)/python bench/$$one.py || exit 1; done

clean: ## drop the environment and the caches of the tools (data in .penstock stays)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
