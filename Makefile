# Everything a person or CI does with this repository. `make` lists the targets.

CARGO ?= cargo
# One target directory for the project and its fuzz crate, so that what both
# need is built once.
export CARGO_TARGET_DIR ?= $(CURDIR)/target
# More jobs than cores, because compilers also wait for the disk and for one another: on two
# cores a build takes a sixth less time.
JOBS ?= --jobs $(shell expr $$(nproc) + 2)
# Seconds that `make fuzz` spends on each target.
FUZZ_SECONDS ?= 60
# What `make bench` is to measure, such as `BENCH="--scenarios throughput,latency"`,
# and another gateway to measure than the release build, such as `BIN=target/dist/sluice`.
BENCH ?=
BIN ?=
# How long `make soak` puts faults upon a gateway under load.
SOAK_SECONDS ?= 3600
# Generated policies, with 40 calls each, on which `make fuzz` compares two evaluators.
FUZZ_POLICIES ?= 100000
# Where `make eval` finds labelled tools, and `make catalog` definitions.
SHARED ?= ../shared
# Options of `make compat`, such as `COMPAT=--write`.
COMPAT ?=
FUZZ_TARGETS = $(notdir $(basename $(wildcard fuzz/fuzz_targets/*.rs)))

.DEFAULT_GOAL := help
.PHONY: help run test soak lint bench eval catalog dist man fuzz audit setup fmt clippy tests docs replay compat

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' $(MAKEFILE_LIST)

run: setup ## build, and start the gateway with a demo server to try
	@echo "building; the first time takes about three minutes on two cores"
	$(CARGO) run --profile quick --locked $(JOBS) --bin sluice -- --data $(CARGO_TARGET_DIR)/demo-data up --demo

test: setup fmt clippy tests docs replay compat ## everything that must hold, cheapest first
	@echo "all checks passed"

setup:
	@scripts/setup

fmt:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) fmt --manifest-path bench/Cargo.toml --check
	$(CARGO) fmt --manifest-path compat/Cargo.toml --check

clippy:
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings
	$(CARGO) clippy --manifest-path fuzz/Cargo.toml --all-targets --locked -- -D warnings
	$(CARGO) clippy --manifest-path bench/Cargo.toml --all-targets --locked -- -D warnings
	$(CARGO) clippy --manifest-path compat/Cargo.toml --all-targets --locked -- -D warnings

# nextest runs tests in parallel processes; plain `cargo test` does without it.
# Those of sign-in run an identity provider from npm.
tests:
	@compat/setup
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
		$(CARGO) nextest run --workspace --all-features --locked --no-fail-fast; \
	else \
		$(CARGO) test --workspace --all-features --locked --all-targets; \
	fi
	$(CARGO) test --workspace --all-features --locked --doc

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --locked

replay: ## replay what the fuzzers have found, on stable
	$(CARGO) test --manifest-path bench/Cargo.toml --locked
	$(CARGO) test --manifest-path fuzz/Cargo.toml --locked

compat: setup ## clients and servers of others, and the conformance suite
	@compat/setup
	cd compat && python3 -B -m unittest --quiet harness.tests
	$(CARGO) build --workspace --all-features --locked --bin sluice
	$(CARGO) build --locked --manifest-path compat/Cargo.toml
	python3 -B compat/scans.py --sluice $(CARGO_TARGET_DIR)/debug/sluice
	python3 -B compat/run.py --sluice $(CARGO_TARGET_DIR)/debug/sluice --peers $(CARGO_TARGET_DIR)/debug $(COMPAT)

soak: setup ## kills, locked and full disks, hostile servers and clients, for an hour
	SLUICE_CHAOS_SECONDS=$(SOAK_SECONDS) $(CARGO) test --locked -p sluice-cli --test it chaos -- --nocapture

lint: setup ## dependencies, unused code, spelling
	scripts/tool cargo-deny 0.20.2
	scripts/tool cargo-machete 0.9.2
	scripts/tool typos-cli 1.52.0
	.tools/bin/cargo-deny check licenses bans sources
	.tools/bin/cargo-machete
	.tools/bin/typos

audit: ## known vulnerabilities in dependencies; needs the advisory database
	scripts/tool cargo-deny 0.20.2
	.tools/bin/cargo-deny check advisories

bench: setup ## speed, side by side in one run: parts of it, then the whole gateway
	$(if $(BIN),,$(CARGO) bench --workspace --bench '*' --locked)
	$(if $(BIN),,$(CARGO) build --release --locked --bin sluice)
	$(CARGO) build --release --locked --manifest-path bench/Cargo.toml
	$(CARGO_TARGET_DIR)/release/sluice-bench run --sluice $(or $(BIN),$(CARGO_TARGET_DIR)/release/sluice) $(BENCH)

dist: setup ## the binary to publish, optimised for what the bench does, with its checksum
	$(CARGO) build --release --locked --manifest-path bench/Cargo.toml
	scripts/dist $(CARGO_TARGET_DIR)/release/sluice-bench

eval: setup ## how well tools are classified, on labelled ones
	$(CARGO) build --release --locked --bin sluice
	@python3 -B scripts/eval $(CARGO_TARGET_DIR)/release/sluice $(SHARED)

catalog: setup ## the index of known servers and tools, built anew from their definitions
	$(CARGO) build --locked --bin sluice
	$(CARGO_TARGET_DIR)/debug/sluice catalog build $(SHARED)/catalog-seed catalog/index.bin

man: ## the manual pages, in target/man
	$(CARGO) run --locked --bin sluice -- man $(CARGO_TARGET_DIR)/man

fuzz: setup ## hostile input, and two evaluators compared; needs the nightly toolchain
	scripts/tool cargo-fuzz 0.13.2
	@for target in $(FUZZ_TARGETS); do \
		mkdir -p fuzz/corpus/$$target; \
		echo "fuzzing $$target for $(FUZZ_SECONDS) s"; \
		PATH="$(CURDIR)/.tools/bin:$$PATH" cargo +nightly fuzz run --features libfuzzer $$target \
			fuzz/corpus/$$target fuzz/seeds/$$target -- \
			-dict=fuzz/json.dict -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done
	SLUICEGATE_LAWS=$(FUZZ_POLICIES) $(CARGO) test --release --locked -p sluice-policy --test it laws
