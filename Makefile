# `make` alone says what there is to make.

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help

# What the libraries, the demo and the tests need, by Debian's names.
PACKAGES := librdkafka-dev libnghttp2-dev libssl-dev libhiredis-dev pkg-config redis-server nghttp2-client curl util-linux
# What only the benchmarks need.
BENCH_PACKAGES := libsimdjson-dev valgrind
FORMATTED := Package.swift Sources Tests $(wildcard Benchmarks/*.swift Benchmarks/*/)

# Further arguments: make demo DEMO='--followers 100', make test TEST='--filter Kafka'.
DEMO ?=
TEST ?=

.PHONY: help deps bench-deps build demo test lint format bench bench-check clean

help: ## Say what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

deps: ## Install the Debian packages that are missing (as root; else say which)
	@.ci/packages $(PACKAGES)

bench-deps: deps
	@.ci/packages $(BENCH_PACKAGES)

build: deps ## Build the program: .build/release/causeway
	swift build --configuration release --product causeway

demo: build ## Play a cricket season to 3,000 simulated phones, in about a minute
	@.build/release/causeway demo $(DEMO)

test: deps ## Build and run all tests; the last line says how many passed
	@mkdir -p .build && : > .build/test.log
	@swift build --build-tests && swift test --skip-build $(TEST) 2>&1 | tee .build/test.log; \
	    status=$$?; .ci/test-summary .build/test.log && exit $$status

lint: ## Check the formatting, strictly
	swift format lint --strict --parallel --recursive $(FORMATTED)

format: ## Format all sources
	swift format --in-place --parallel --recursive $(FORMATTED)

bench: bench-deps ## Run the benchmarks
	swift run --package-path Benchmarks --configuration release JSONBenchmark
	swift run --package-path Benchmarks --configuration release DeliveryBenchmark

bench-check: bench-deps ## Fail if the domain or the core allocates for a message
	swift run --package-path Benchmarks --configuration release JSONBenchmark check
	swift run --package-path Benchmarks --configuration release DeliveryBenchmark check

clean: ## Remove what was built
	rm -rf .build Benchmarks/.build
