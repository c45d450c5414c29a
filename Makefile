# The one place that people and CI call. `make test` needs cargo (rustup brings the toolchain of rust-toolchain.toml) and
# python3; everything else it fetches itself. On two idle cores it takes 40 to 45 minutes from nothing, half of it building,
# and `make demo` about 20.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
CARGO ?= cargo
PYTHON ?= python3
VENV := .venv
VENV_PEERS := .venv-peers
COMPARE := crates/ogee-bench/python/compare.py
SCALES ?= 1 2 4 8
TABLE_SCALES ?= 2 8
SCALE ?= 1
ROWS ?= 10000000
THREADS ?= 2
QUERIES ?= 200000
# Where the random queries of `differential` begin: the same ones each time, so that a change is not held up by what it did not do.
SEED ?= 1
FUZZ_SECONDS ?= 3600
LIMITS ?= none,4GB,1GB,512MB,256MB
EMPTY :=
SPACE := $(EMPTY) $(EMPTY)
COMMA := ,
LOOM := RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target-loom
DATA := data/tpch-$(SCALE)

.DEFAULT_GOAL := help

.PHONY: help
help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## Build the shell in release and show groupings of 6 million rows at several memory limits
	$(CARGO) build --release -p ogee-cli
	target/release/ogee demo

.PHONY: test
test: tidy fmt-check lint test-python test-rust loom suite-duckdb differential fuzz-sample ## Everything that must hold before a change is merged
	@echo "make test: all good"

.PHONY: fmt
fmt: ## Format all code
	$(CARGO) fmt --all

.PHONY: fmt-check
fmt-check:
	$(CARGO) fmt --all --check

.PHONY: lint
lint: ## Lints of all crates, as errors
	$(CARGO) clippy --workspace --all-targets -- -D warnings

.PHONY: tidy
tidy: ## Rules about the crates' order
	.ci/tidy

.PHONY: test-engine
test-engine: ## Tests of the engine crates alone, without DataFusion
	$(CARGO) test -p ogee-memory -p ogee-vector -p ogee-row -p ogee-scheduler -p ogee-exec -p ogee-scan

.PHONY: test-rust
test-rust: ## Tests of all crates, with the SQL suite under every profile (all of it with `slt`)
	$(CARGO) test --workspace

.PHONY: test-python
test-python: ## Which results of the standard suites agree
	$(PYTHON) crates/ogee-bench/python/test_suites.py

.PHONY: slt
slt: ## The SQL suite alone, all of it under every profile (`test` leaves a part out)
	OGEE_SLT= $(CARGO) test -p ogee --test slt

.PHONY: test-long
test-long: slt ## What `test` runs a part of, whole: the SQL suite, operators under every setup
	OGEE_WHOLE= $(CARGO) test -p ogee-exec

VALGRIND := valgrind --quiet --error-exitcode=99

.PHONY: sanitize
sanitize: ## Tests of rows and vectors under valgrind: accesses beyond what was allocated (AVX2; valgrind has no AVX-512)
	@# Pages are mappings, which valgrind knows only as a whole: what it sees is the heap, where rows are staged and gathered to.
	@if ! command -v valgrind > /dev/null; then echo "sanitize: skipped, valgrind is not installed"; exit 0; fi; \
	for arch in X86_64 AARCH64; do export CARGO_TARGET_$${arch}_UNKNOWN_LINUX_GNU_RUNNER="$(VALGRIND)"; done; \
	$(CARGO) test -p ogee-vector -p ogee-row --lib

.PHONY: check-targets
check-targets: ## The engine crates compile for 64-bit ARM, for each target that rustup has installed
	@for target in aarch64-unknown-linux-gnu aarch64-apple-darwin; do \
		if ! rustup target list --installed | grep -qx $$target; then echo "check-targets: $$target skipped, it is not installed"; continue; fi; \
		$(CARGO) check --target $$target -p ogee-memory -p ogee-vector -p ogee-row -p ogee-scheduler -p ogee-exec -p ogee-scan || exit 1; \
	done

.PHONY: loom
loom: ## Model checks of pinning, eviction and scheduling
	$(LOOM) $(CARGO) test --release -p ogee-memory --test 'loom*'
	$(LOOM) $(CARGO) test --release -p ogee-scheduler --lib

$(VENV)/.done: tests/differential/requirements.txt tests/shell/requirements.txt crates/ogee-bench/python/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r tests/differential/requirements.txt -r tests/shell/requirements.txt \
		-r crates/ogee-bench/python/requirements.txt
	touch $@

.PHONY: suite-duckdb
suite-duckdb: $(VENV)/.done ## The expected answers of the SQL suite are DuckDB's
	$(VENV)/bin/python tests/sql/duckdb_answers.py

.PHONY: test-terminal
test-terminal: $(VENV)/.done ## The shell in a terminal: keys, completion, colours, wide results, Ctrl-C, progress, pager (ARGS="--only pager")
	@# As in test-rust, so that features are the same and nothing is built twice.
	$(CARGO) test --workspace --no-run --quiet
	$(VENV)/bin/python tests/shell/terminal.py --shell target/debug/ogee $(ARGS)

.venv-remote/.done: tests/remote/requirements.txt
	$(PYTHON) -m venv .venv-remote
	.venv-remote/bin/pip install --quiet --disable-pip-version-check -r tests/remote/requirements.txt
	touch $@

.PHONY: test-remote
test-remote: .venv-remote/.done ## Files by URL, against servers that the test starts (not part of `test`: the feature's dependencies take minutes to build)
	$(CARGO) build --workspace --features ogee-cli/remote --bin ogee
	.venv-remote/bin/python tests/remote/remote.py --shell target/debug/ogee

.PHONY: differential
differential: $(VENV)/.done ## Random queries of one seed against DuckDB (SEED="$$(date +%s)" for others); more with ARGS="--rounds 1000 --seconds 3600"
	@# As in test-rust, so that features are the same and nothing is built twice.
	$(CARGO) test --workspace --no-run --quiet
	$(VENV)/bin/python tests/differential/differential.py --shell target/debug/ogee --seed $(SEED) $(ARGS)
	$(VENV)/bin/python tests/differential/grids.py --shell target/debug/ogee --seed $(SEED) --queries 60
	$(VENV)/bin/python tests/differential/small.py --shell target/debug/ogee --seed $(SEED) --seconds 30 $(SMALL)
	$(VENV)/bin/python tests/differential/small.py --shell target/debug/ogee --seed $(SEED) --seconds 15 --judge sqlite $(SMALL)
	$(VENV)/bin/python tests/differential/files.py --shell target/debug/ogee

.PHONY: differential-long
differential-long: $(VENV)/.done ## 200,000 random queries of a release build, all differences listed; QUERIES, SMALL="--seed N" to repeat
	$(CARGO) build --release -p ogee-cli
	$(VENV)/bin/python tests/differential/small.py --shell target/release/ogee --seconds 36000 --databases $$(($(QUERIES) / 100)) \
		--keep-going --check --never $(SMALL)
	$(VENV)/bin/python tests/differential/grids.py --shell target/release/ogee --queries 2000
	OGEE_ROUNDS=50000 $(CARGO) test --release -p ogee --test engine mutations::
	OGEE_ROUNDS=40 $(CARGO) test --release -p ogee --test engine differential
	OGEE_ROUNDS=1000 $(CARGO) test --release -p ogee --test engine oracles::

.PHONY: release
release: ## The shell, which opens files by URL (feature `remote`), and the experiments in release
	$(CARGO) build --release -p ogee-cli -p ogee-bench --features ogee-cli/remote

$(DATA)/lineitem: | release
	target/release/ogee-bench generate tpch --tables lineitem --scale $(SCALE) --out $(DATA)

.PHONY: bench-data
bench-data: | $(DATA)/lineitem ## TPC-H lineitem at SCALE, once

.PHONY: bench-answers
bench-answers: bench-data $(VENV)/.done ## DuckDB's answers to the groupings at SCALE, once
	$(VENV)/bin/python $(COMPARE) answers --data $(DATA)

.PHONY: bench-groupings
bench-groupings: release bench-answers ## The 13 groupings at every limit: answers, memory against the limit (SCALE, LIMITS, ARGS)
	target/release/ogee-bench groupings --data $(DATA) --answers $(DATA)/answers-duckdb.json --limits $(LIMITS) \
		--out $(DATA)/groupings.jsonl $(ARGS)

.PHONY: bench-race
bench-race: release bench-answers ## Beside DuckDB: time and memory (SCALE, LIMITS, THREADS, ARGS)
	$(VENV)/bin/python $(COMPARE) race --data $(DATA) --limits $(LIMITS) --threads $(THREADS) $(ARGS)

GROUPINGS := $(foreach kind,thin wide14,$(foreach number,1 2 3 4 5 6 7 8 9 10 11 12 13,g$(number)-$(kind)))

$(VENV_PEERS)/.done: crates/ogee-bench/python/requirements-peers.txt
	$(PYTHON) -m venv $(VENV_PEERS)
	$(VENV_PEERS)/bin/pip install --quiet --disable-pip-version-check -r crates/ogee-bench/python/requirements-peers.txt
	touch $@

.PHONY: bench-peers
bench-peers: release bench-answers $(VENV_PEERS)/.done ## Beside four other systems at every limit: time, memory, the README's picture (SCALE, LIMITS, ARGS)
	$(VENV_PEERS)/bin/python $(COMPARE) race --data $(DATA) --limits $(LIMITS) --threads $(THREADS) --runs 1 \
		--systems ogee,duckdb,datafusion,clickhouse,hyper --names g13-thin,g4-wide16 --out $(DATA)/peers.jsonl $(ARGS)
	$(VENV_PEERS)/bin/python crates/ogee-bench/python/plot.py limits $(DATA)/peers.jsonl --out $(DATA)/limits.svg \
		--names g13-thin,g4-wide16 --titles "three keys, every row a group;two keys and the other 14 columns"

.PHONY: bench-scales
bench-scales: release $(VENV)/.done $(VENV_PEERS)/.done ## Groupings 3, 6, 13 where the limit grows with the data: figures 5 and 6 of the external aggregation paper (SCALES)
	for scale in $(SCALES); do \
		test -d data/tpch-$$scale/lineitem || target/release/ogee-bench generate tpch --tables lineitem --scale $$scale --out data/tpch-$$scale || exit 1; \
		$(VENV)/bin/python $(COMPARE) answers --data data/tpch-$$scale --names g3-thin,g6-thin,g13-thin || exit 1; \
		$(VENV)/bin/python $(COMPARE) race --data data/tpch-$$scale --limits $$((156 * scale))MB --threads $(THREADS) --runs 1 \
			--names g3-thin,g6-thin,g13-thin,g3-wide14,g6-wide14,g13-wide14 --out data/scales.jsonl $(ARGS) || exit 1; \
	done
	$(VENV_PEERS)/bin/python crates/ogee-bench/python/plot.py scales data/scales.jsonl --out data/scales.svg \
		--names g3-thin,g6-thin,g13-thin,g3-wide14,g6-wide14,g13-wide14 --titles "3, thin;6, thin;13, thin;3, wide;6, wide;13, wide"

.PHONY: bench-tables
bench-tables: release $(VENV)/.done $(VENV_PEERS)/.done ## The 13 groupings, thin and wide, where the limit grows with the data: tables II and III of that paper (TABLE_SCALES, ARGS)
	for scale in $(TABLE_SCALES); do \
		test -d data/tpch-$$scale/lineitem || target/release/ogee-bench generate tpch --tables lineitem --scale $$scale --out data/tpch-$$scale || exit 1; \
		$(VENV)/bin/python $(COMPARE) answers --data data/tpch-$$scale || exit 1; \
		$(VENV)/bin/python $(COMPARE) race --data data/tpch-$$scale --limits $$((156 * scale))MB --threads $(THREADS) --runs 1 \
			--names $(subst $(SPACE),$(COMMA),$(GROUPINGS)) --out data/tables.jsonl $(ARGS) || exit 1; \
	done
	$(VENV_PEERS)/bin/python crates/ogee-bench/python/plot.py tables data/tables.jsonl --out data/tables.md

.PHONY: bench-h2o
bench-h2o: release $(VENV)/.done ## The H2O.ai group-by queries on ROWS rows beside DuckDB: answers, then time and memory (ROWS, LIMITS, THREADS, ARGS)
	test -d data/h2o-$(ROWS)/h2o || target/release/ogee-bench generate h2o --rows $(ROWS) --out data/h2o-$(ROWS)
	for step in answers check race; do $(VENV)/bin/python $(COMPARE) $$step --suite h2o \
		--data data/h2o-$(ROWS) --limits $(LIMITS) --threads $(THREADS) $(ARGS) || exit 1; done

.PHONY: bench-blocking
bench-blocking: release $(VENV)/.done ## Joins, sorts, windows and distinct values beside DuckDB, to be given little memory (SCALE, LIMITS, THREADS, ARGS)
	test -d data/blocking-$(SCALE)/orders || target/release/ogee-bench generate tpch --tables lineitem,orders,partsupp --scale $(SCALE) --out data/blocking-$(SCALE)
	for step in answers check race; do $(VENV)/bin/python $(COMPARE) $$step --suite blocking \
		--data data/blocking-$(SCALE) --limits $(LIMITS) --threads $(THREADS) $(ARGS) || exit 1; done

.PHONY: bench-sums
bench-sums: release $(VENV)/.done ## Sums by key over ROWS rows of five distributions beside DuckDB (ROWS, LIMITS, THREADS, ARGS)
	test -d data/sums-$(ROWS) || target/release/ogee-bench generate sums --rows $(ROWS) --out data/sums-$(ROWS)
	for step in answers check race; do $(VENV)/bin/python $(COMPARE) $$step --suite sums \
		--data data/sums-$(ROWS) --limits $(LIMITS) --threads $(THREADS) $(ARGS) || exit 1; done

# Data once, then DuckDB's answers, Ogee's against them at every limit, and the race; $(1) is the suite.
define suite
	test -e data/$(1)-$(SCALE)/.tables || { target/release/ogee-bench generate $(1) --scale $(SCALE) --out data/$(1)-$(SCALE) \
		&& touch data/$(1)-$(SCALE)/.tables; }
	failed=0; for step in answers check race; do $(VENV)/bin/python $(COMPARE) $$step --suite $(1) \
		--data data/$(1)-$(SCALE) --limits $(LIMITS) --threads $(THREADS) $(ARGS) || failed=1; done; exit $$failed
endef

.PHONY: bench-tpch
bench-tpch: release $(VENV)/.done ## The 22 queries of TPC-H beside DuckDB: whole answers, then time and memory (SCALE, LIMITS, THREADS, ARGS)
	$(call suite,tpch)

.PHONY: bench-tpcds
bench-tpcds: release $(VENV)/.done ## The 99 queries of TPC-DS (SCALE, LIMITS, THREADS, ARGS)
	$(call suite,tpcds)

.PHONY: bench-ssb
bench-ssb: release $(VENV)/.done ## The 13 queries of the Star Schema Benchmark (SCALE, LIMITS, THREADS, ARGS)
	$(call suite,ssb)

.PHONY: bench-job
bench-job: release $(VENV)/.done ## The 113 queries of the Join Order Benchmark over made tables (SCALE, LIMITS, THREADS, ARGS)
	$(call suite,job)

.PHONY: fuzz
fuzz: ## Damaged Parquet files in a release build; those that something is wrong with are kept in fuzz-found (FUZZ_SECONDS, SEED)
	$(CARGO) build --release -p ogee-bench
	target/release/ogee-bench fuzz --kept tests/fuzz/kept --seed $(SEED) --files 1000000000 --seconds $(FUZZ_SECONDS)

.PHONY: fuzz-files
fuzz-files: $(VENV)/.done ## The same for Arrow, CSV and JSON files, and for footers of Parquet files, as the shell meets them (FUZZ_SECONDS, SEED, ARGS)
	$(CARGO) build --release -p ogee-cli
	$(VENV)/bin/python tests/fuzz/files.py --shell target/release/ogee --seed $(SEED) --seconds $(FUZZ_SECONDS) $(ARGS)

.PHONY: fuzz-sample
fuzz-sample: $(VENV)/.done ## A few of them
	@# As in test-rust, so that features are the same and nothing is built twice.
	$(CARGO) test --workspace --no-run --quiet
	$(VENV)/bin/python tests/fuzz/files.py --shell target/debug/ogee --seed $(SEED) --files 600 --seconds 120

.PHONY: bench-idle
bench-idle: release bench-data ## Memory falls back after a query; an idle shell uses no CPU
	target/release/ogee-bench idle --data $(DATA) $(ARGS)
