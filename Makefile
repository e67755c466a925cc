# `make` without a target lists all targets.

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help

# Debian packages that the libraries, the demo and the tests need.
PACKAGES := librdkafka-dev libnghttp2-dev libssl-dev libhiredis-dev pkg-config \
    redis-server nghttp2-client nghttp2-server caddy curl util-linux python3
# Packages that only the tests need: promtool.
TEST_PACKAGES := prometheus
# Packages that only `page-test` needs.
PAGE_PACKAGES := chromium
# Packages that only the benchmarks need.
BENCH_PACKAGES := libsimdjson-dev valgrind binutils
# Packages that only the examples for producers need: compilers, a Kafka client, a JSON library.
EXAMPLE_PACKAGES := python3-venv golang-go golang-github-confluentinc-confluent-kafka-go-dev default-jdk-headless \
    libjackson2-databind-java nodejs
# The scripts in `.ci` that `lint` runs, each after its self-test.
LINT_CHECKS := lengths words file-names test-names design-names comment-names metric-uses log-kind-uses key-uses \
    outcome-uses decision-places moments
FORMATTED := Package.swift Sources Tests Examples $(wildcard Benchmarks/*.swift Benchmarks/*/ Fuzz/*.swift Fuzz/*/)

# Extra arguments of `page-test`: make page-test PAGE='--screenshots .build'.
PAGE ?=
# Extra arguments: make demo DEMO='--followers 100', make test TEST='--filter Kafka'.
DEMO ?=
TEST ?=
# The project's public address, for a released chart.
PROJECT_URL ?=
# Options and scenarios of `fleet-test`: make fleet-test FLEET='--protocol range rolling', or FLEET=--all.
FLEET ?=
# The version from which `upgrade-test` upgrades: make upgrade-test FORMER=v0.1.0. Default: the newest tag before this commit.
FORMER ?=
# The cases that `acceptance-test` runs: make acceptance-test ACCEPTANCE='killed overtaken-50'. Default: all.
ACCEPTANCE ?=
# Options of `outage-test`, such as the case to run: make outage-test OUTAGE='--case apns-503'.
OUTAGE ?=
# Another server for the Redis suites: make test-redis REDIS_SERVER=valkey-server
REDIS_SERVER ?= redis-server
# The seconds that each fuzz target runs, and the targets.
FUZZ_SECONDS ?= 600
FUZZ_TARGETS ?= frames headers answers commands registrations replies
# How many random histories `campaign` runs on the Redis scripts and on their model.
HISTORIES ?= 1000000
# The seeds of each kind that `campaign` runs in the simulations of single activities (SEEDS) and of audiences (AUDIENCE_SEEDS).
SEEDS ?= 10000
AUDIENCE_SEEDS ?= 10000
# The first seed that `campaign` runs in each simulation.
FIRST_SEED ?= 1

# The suites that `redis-versions-test` runs on each Redis server.
REDIS_TESTS ?= ActivityStoreTests|RedisTests|RedisTopologyTests|EndToEndTests.RedisLossTests

.PHONY: help deps test-deps bench-deps build demo test test-redis redis-versions-test campaign sanitize lint-deps lint format fuzz \
    bench bench-gated bench-check bench-update chart-deps chart-test chart-package configuration-files dashboard \
    fleet-deps fleet-test outage-test outage-hour newcomer-test acceptance-test page-deps page-test metrics-page records records-deps \
    records-programs records-test records-java-test kit-test \
    image image-check static-build dist dist-test upgrade-test sbom release-test clean

help: ## List all targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-19s %s\n", $$1, $$2 }'

deps: ## Install missing Debian packages (as root; otherwise list them)
	@.ci/packages $(PACKAGES)

test-deps: deps
	@.ci/packages $(TEST_PACKAGES)

bench-deps: deps
	@.ci/packages $(BENCH_PACKAGES)

build: deps ## Build both programs: .build/release/causeway and causeway-lab
	swift build --configuration release --product causeway
	swift build --configuration release --product causeway-lab

demo: build ## Play a cricket season to 3,000 simulated phones, in about a minute
	@.build/release/causeway-lab demo $(DEMO)

# Limits parallel tests. Without a limit, a test can time out while a thousand other tests use the processors.
test: export SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH ?= 16
test: test-deps ## Build and run all tests; the last line says how many passed
	@mkdir -p .build && : > .build/test.log
	@swift build --build-tests && .ci/whole-modules && .ci/test $(TEST)

page-deps: test-deps
	@.ci/packages $(PAGE_PACKAGES)

page-test: page-deps ## Check the live page in a headless Chromium: counts, buttons, a phone's history, keyboard (two minutes)
	@swift build --build-tests
	@Tests/Acceptance/page/run.py .build/debug/causeway-lab $(PAGE)

campaign: build ## Check seasons against all promises, a million script histories, 10,000 seeds of each simulated kind: 45 minutes
	Tests/Acceptance/season/campaign .build/release/causeway-lab
	CAUSEWAY_DIFFERENTIAL_HISTORIES=$(HISTORIES) swift test --filter ActivityStoreTests.DifferentialTests
	CAUSEWAY_SIMULATION_SEEDS=$(SEEDS) CAUSEWAY_SIMULATION_FIRST_SEED=$(FIRST_SEED) swift test --filter 'DeliveryTests.SimulationTests'
	CAUSEWAY_SIMULATION_SEEDS=$(AUDIENCE_SEEDS) CAUSEWAY_SIMULATION_FIRST_SEED=$(FIRST_SEED) \
	    swift test --filter 'AudiencesTests.SimulationTests'

test-redis: deps ## Run the Redis suites on another server: make test-redis REDIS_SERVER=valkey-server
	CAUSEWAY_REDIS_SERVER=$(REDIS_SERVER) swift test --filter 'ActivityStoreTests|RedisTests|RedisTopologyTests'

redis-versions-test: export SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH ?= 16
redis-versions-test: test-deps ## Run the Redis suites, and workers that lose Redis, on Redis 6.0 to 8.2 and Valkey 8.1: ten minutes
	@.ci/redis-servers
	@swift build --build-tests
	@status=0; for server in $$PWD/.build/redis-servers/*/; do \
	    name=$$(basename "$$server") && "$$server/redis-server" --version && log=.build/$$name.log || { status=1; continue; }; \
	    skipped=$$(cat "$$server/skipped" 2> /dev/null || echo none); \
	    CAUSEWAY_REDIS_SERVER="$$server/redis-server" PATH="$$server:$$PATH" swift test --skip-build \
	        --filter '$(REDIS_TESTS)' --skip "$$skipped" > "$$log" 2>&1; .ci/test-summary "$$log" || status=1; \
	done; exit $$status

sanitize: test-deps ## Run the suites under ThreadSanitizer and AddressSanitizer: half an hour
	.ci/sanitize thread
	.ci/sanitize address

fuzz: deps ## Fuzz the code that reads bytes from outside, ten minutes each (FUZZ_SECONDS, FUZZ_TARGETS)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) .ci/fuzz $(FUZZ_TARGETS)

lint-deps:
	@.ci/packages lua5.1 python3

# Runs all checks before it fails, and names those that failed at the end. The Redis scripts contain placeholders for
# constants, @NAME@. To check the syntax, a 0 replaces each of them.
lint: lint-deps ## Check formatting, Lua syntax, lengths, plain English, names, comments, pages, and that nothing is unused or unlisted
	@failed=""; \
	swift format lint --strict --parallel --recursive $(FORMATTED) || failed="$$failed swift-format"; \
	files=$$(find Sources -name '*.lua') && test -n "$$files" || failed="$$failed no-Lua-files"; \
	for file in $$files; do \
	    sed 's/@[A-Z_]*@/0/g' "$$file" | luac5.1 -p - || { echo "$$file is not valid Lua"; failed="$$failed $$file"; }; done; \
	for check in $(LINT_CHECKS); do \
	    .ci/$$check --self-test && .ci/$$check || failed="$$failed .ci/$$check"; done; \
	test -z "$$failed" || { echo "These checks failed:$$failed. See the output of each of them above."; exit 1; }

format: ## Format all sources
	swift format --in-place --parallel --recursive $(FORMATTED)

bench: bench-deps ## Run the benchmarks
	swift run --package-path Benchmarks --configuration release JSONBenchmark
	swift run --package-path Benchmarks --configuration release DeliveryBenchmark
	swift run --package-path Benchmarks --configuration release RedisBenchmark
	swift run --package-path Benchmarks --configuration release causeway-bench compare

# Builds only the benchmarks whose figures `bench-check` compares with thresholds.
bench-gated: bench-deps
	swift build --package-path Benchmarks --configuration release --product JSONBenchmark
	swift build --package-path Benchmarks --configuration release --product DeliveryBenchmark

bench-check: bench-gated ## Fail if the domain or the core allocates for a message or takes too many instructions
	Benchmarks/.build/release/JSONBenchmark check
	Benchmarks/.build/release/DeliveryBenchmark check
	.ci/instruction-counts

bench-update: bench-gated ## Write the present instruction counts as this compiler's thresholds
	.ci/instruction-counts --update

fleet-deps: deps
	@.ci/packages python3-venv
	@.ci/fleet-tools

fleet-test: build fleet-deps ## Restart, kill, stop and add workers of one group: six minutes
	@cd Tests/Acceptance && ../../.build/fleet/venv/bin/python -B -m unittest --quiet fleet/test_*.py
	@.build/fleet/venv/bin/python Tests/Acceptance/fleet/run.py .build/release/causeway $(FLEET)

acceptance-test: build fleet-deps ## Disturb fan-outs to an audience with newer commands, kills and Redis outages: twelve minutes
	@cd Tests/Acceptance && ../../.build/fleet/venv/bin/python -B -m unittest --quiet fanouts/test_*.py
	@.build/fleet/venv/bin/python Tests/Acceptance/fanouts/run.py .build/release/causeway $(ACCEPTANCE)

newcomer-test: deps ## Run README.md's first commands exactly as written, and compare what they print: under a minute
	swift build --product causeway
	swift build --product causeway-lab
	@cd Tests/Acceptance && python3 -B -m unittest --quiet newcomer/test_*.py
	@python3 -B Tests/Acceptance/newcomer/run.py .build/debug

outage-test: build fleet-deps ## Break what workers depend on, case by case, and fail if a state is lost, too old or sent twice: 15 minutes
	@.build/release/causeway-lab outage --broker '.build/fleet/venv/bin/python -B Tests/Acceptance/fleet/broker.py' $(OUTAGE)

outage-hour: build ## Stop one app's APNs host for an hour, with 2,000 commands a second for it and for another app
	@.build/release/causeway-lab outage-hour $(OUTAGE)

chart-deps: deps
	@.ci/packages python3-venv
	@.ci/chart-tools

chart-test: chart-deps ## Render and check the chart, its alerts, dashboard and runbook
	swift build --product causeway
	@CAUSEWAY=$(CURDIR)/.build/debug/causeway .build/tools/venv/bin/python Tests/Acceptance/chart/run.py

configuration-files: deps ## Write Config/causeway.yaml, the JSON Schemas and CONFIG.md from the keys in Swift
	swift build --product causeway
	@.ci/configuration-files .build/debug/causeway

dashboard: chart-deps ## Write the chart's dashboard for Grafana from Helm/dashboard.yaml
	@.build/tools/venv/bin/python .ci/dashboard

chart-package: chart-deps ## Package the chart for a release: make chart-package PROJECT_URL=https://…
	@.ci/chart-package '$(PROJECT_URL)'

metrics-page: deps ## Write METRICS.md from the catalogs of metrics and log lines
	swift build --product causeway
	@.build/debug/causeway metrics-page > .build/METRICS.md && mv .build/METRICS.md Helm/causeway/METRICS.md

records: ## Write the schemas, the AsyncAPI document and the reference of records again
	swift run causeway record-reference

records-deps: deps
	@.ci/packages $(EXAMPLE_PACKAGES)
	@.ci/records-tools

# `records-test` uses debug builds. They are enough for it, and `make test` makes them too.
records-programs: deps
	swift build --product causeway
	swift build --product causeway-lab

records-test: records-programs records-deps ## Compare the schemas with the program by another validator, and run the examples: a minute
	@.build/records/venv/bin/python -B Tests/Acceptance/records/run.py .build/debug

records-java-test: records-programs records-deps fleet-deps ## Run the example in Java with Apache's Kafka client (downloads 200 MB)
	@.ci/records-java
	@.build/records/venv/bin/python -B Tests/Acceptance/records/run.py .build/debug --java

kit-test: records-programs records-deps ## Build a package that depends on this repository by version, and check its records: a minute
	@.build/records/venv/bin/python -B Tests/Acceptance/dependent_package/run.py .build/debug

image: ## Build the container image (needs Docker)
	version=$$(sed -n 's/^appVersion: "\(.*\)"/\1/p' Helm/causeway/Chart.yaml) && docker build --tag causeway:$$version \
	    --build-arg VERSION=$$version --build-arg REVISION=$$(git rev-parse HEAD 2>/dev/null) .

image-check: static-build ## Run the image's build steps in plain Debian roots (as root), and the program in them
	@.ci/packages debootstrap
	@.ci/image-root .build/static/release/causeway

# Builds both programs with Swift's runtime linked statically, as in the image. `dist` links their objects again,
# without shared libraries.
static-build: deps
	@.ci/packages libcurl4-openssl-dev binutils
	swift build --configuration release --static-swift-stdlib --product causeway --scratch-path .build/static
	swift build --configuration release --static-swift-stdlib --product causeway-lab --scratch-path .build/static

dist: static-build ## Pack programs without shared libraries, for this machine's kind of processor: .build/dist
	@.ci/packages liblz4-dev libsasl2-dev libzstd-dev zlib1g-dev
	@.ci/dist .build/static

dist-test: dist ## Run the packed programs on a system with nothing else, and try the signing of a release
	@.ci/packages gnupg openssl redis-server util-linux
	@.ci/dist-test .build/static

upgrade-test: deps fleet-deps ## Upgrade a fleet from the former version under load, and roll it back: make upgrade-test FORMER=COMMIT
	swift build --product causeway
	swift build --product causeway-lab
	@.ci/former-version '$(FORMER)'
	@.build/fleet/venv/bin/python Tests/Acceptance/fleet/run.py .build/debug/causeway --former .build/former/causeway \
	    --activities 200 --rate 100

sbom: build ## Write bills of materials (CycloneDX) of the programs that `make build` made: .build/dist
	@for program in causeway causeway-lab; do \
	    .ci/sbom --build .build --product $$program --program .build/release/$$program --linked --output .build/dist/$$program.cdx.json \
	        && echo ".build/dist/$$program.cdx.json" || exit 1; \
	done

release-test: build chart-deps fleet-deps ## Check the bills of materials, the pages for operators, and run the services of compose.yaml
	@cd Tests/Acceptance && ../../.build/tools/venv/bin/python -B -m unittest --quiet release/test_*.py

clean: ## Remove all build results
	rm -rf .build .build-thread .build-address Benchmarks/.build Fuzz/.build
