# Whetstone is plain Go without cgo; only the race detector needs it.
export CGO_ENABLED = 0
# What is built does not depend on where the checkout lies, so one build cache
# serves all checkouts.
export GOFLAGS := -trimpath $(GOFLAGS)

VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Run the service from source; ARGS="--addr 127.0.0.1:9000" adds flags
	go run ./cmd/whetstone serve $(ARGS)

.PHONY: demo
demo: ## Run the service in data-demo, filled with an organisation to look at
	go run ./cmd/whetstone serve --data data-demo $(if $(wildcard data-demo/whetstone.db),,--demo) $(ARGS)

.PHONY: build
build: ## Build the static binary bin/whetstone
	go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION)" -o bin/whetstone ./cmd/whetstone

.PHONY: release
release: ## Build the release VERSION=v1.2.3 into dist/, for all platforms; ARGS="--unsigned --untagged" are those of scripts/release
	@scripts/release $(ARGS) $(VERSION)

.PHONY: release-check
release-check: setup ## Build a release, verify it as a user would, install its Debian package, start it; ARGS="--platforms linux/amd64" bounds it
	@scripts/setup buildah mmdebstrap lintian ruby openssl
	@scripts/release-check $(ARGS)

.PHONY: setup
setup: ## Install what the tests need beyond Go, or say what is missing
	@scripts/setup

# What make test may take of processors with a cold cache, in seconds.
BUDGET = 1200

.PHONY: test
test: setup ## Run all tests on SQLite, and on PostgreSQL those that ask it something new; slow proofs in a short form
	@WHETSTONE_TEST_DATABASES=short scripts/budget $(BUDGET) scripts/with-postgres scripts/test -short ./...
	@scripts/test-modules

.PHONY: test-rest
test-rest: setup ## Run on PostgreSQL the tests that make test runs on SQLite alone, and the long form of those that have a short one
	@scripts/test-rest

.PHONY: covered
covered: setup ## Find out which tests ask PostgreSQL something new
	@scripts/covered

.PHONY: test-race
test-race: export CGO_ENABLED = 1
test-race: ## Run all tests under the race detector (needs a C compiler)
	@scripts/setup gcc
	@scripts/with-postgres scripts/test -race ./...

.PHONY: e2e
e2e: setup ## Run the end-to-end tests against the real binary, verbosely
	@scripts/with-postgres go test -v -count=1 ./e2e/...

.PHONY: e2e-browser
e2e-browser: setup ## Use the dashboard in a real Chromium: every page of the demo, and the walks on both databases
	@scripts/with-postgres go test -v -count=1 -timeout 40m -run '^TestBrowser$$' ./e2e -args -browser-all

.PHONY: e2e-agents
e2e-agents: setup ## Run five real agents against the real binary; ARGS="-run TestCodex" are those of go test
	@scripts/setup npm buildah mmdebstrap
	@scripts/e2e-agents $(ARGS)

.PHONY: e2e-gitea
e2e-gitea: setup ## Run a real Gitea, which is built once, against the real binary, on both databases
	@scripts/setup gcc
	@gitea=$$(scripts/gitea) && WHETSTONE_GITEA=$$gitea scripts/with-postgres go test -v -count=1 -run '^TestGitea$$' ./e2e

.PHONY: e2e-clients
e2e-clients: setup ## Run the clients of others: skills, clawhub, Claude Code and Codex from npm, and git, against the real binary, Redocly, a validator and a compiler on the OpenAPI document, axe on every page
	@scripts/setup npm
	@WHETSTONE_NPM=required go test -v -count=1 ./e2e/clients
	@go -C tools test -v -count=1 -vet=off ./openapi

.PHONY: e2e-docs
e2e-docs: setup ## Run the commands of README and all documents against the real binary
	@scripts/setup jq
	@go test -v -count=1 ./e2e/docs -args -all

.PHONY: e2e-observe
e2e-observe: setup ## Check the alert rules with promtool, and the dashboard against the real binary
	@scripts/setup prometheus
	@go test -v -count=1 -run '^(TestAlertRules|TestDashboardAndAlerts)$$' ./e2e

.PHONY: e2e-pgbouncer
e2e-pgbouncer: setup ## Run tests of all kinds through a PgBouncer in transaction mode; ARGS are those of go test
	@scripts/setup pgbouncer
	@WHETSTONE_TEST_POOLER=pgbouncer scripts/with-postgres go test -count=1 $(ARGS) \
		./internal/platform/store ./internal/platform/jobs/... ./internal/publish/registry ./internal/observe/telemetry ./internal/learn/signals ./internal/identity/auth/... ./internal/app/backup ./internal/watch/alerts

.PHONY: e2e-upgrade
e2e-upgrade: setup ## Replace processes of the version before, which is built once, by this one and back, under load; ARGS="-restarts 40"
	@before=$$(scripts/version-before) && WHETSTONE_BEFORE=$$before scripts/with-postgres go test -v -count=1 -timeout 30m \
		-run '^(TestRollingUpgrade|TestUpgradeAndBack)$$' ./e2e/cluster -args $(ARGS)

.PHONY: e2e-cosign
e2e-cosign: ## Verify what the real binary signs with cosign, which is built once
	@cosign=$$(scripts/cosign) && WHETSTONE_COSIGN=$$cosign go test -v -count=1 -run '^TestCosign$$' ./e2e

.PHONY: e2e-image
e2e-image: setup ## Build the container image of the service with buildah and start it: read-only, as its user, over a restart
	@scripts/setup buildah mmdebstrap
	@WHETSTONE_IMAGE_CHECK=1 go test -v -count=1 -timeout 30m -run '^TestImage$$/^service$$' ./e2e/release

.PHONY: image-check
image-check: setup ## The same with the image of workers, which needs the network for a Debian package
	@scripts/setup buildah mmdebstrap
	@WHETSTONE_IMAGE_CHECK=1 go test -v -count=1 -timeout 30m -run '^TestImage$$' ./e2e/release

.PHONY: torture
torture: setup ## Kill everything under load and count what is lost; ARGS="-for 5m -database postgres" bounds it
	@scripts/with-postgres go test ./e2e/cluster -run 'TestTorture|TestRollingRestart' -v -count=1 -timeout 0 -parallel 1 -args \
		$(if $(findstring -for,$(ARGS)),,-for 30s) $(ARGS)

.PHONY: soak
soak: setup ## Hold four fifths of the most that is taken for half an hour, and count what is lost; ARGS="-for 5m -database postgres" bounds it
	@go test ./e2e/soak -v -count=1 -timeout 0 -args $(if $(findstring -for,$(ARGS)),,-for 30m) $(ARGS)

.PHONY: matrix
matrix: setup ## Ask every route as everybody who might, and print how many cells that were
	@scripts/with-postgres go test -v -count=1 -run '^TestIsolationMatrix' ./internal/app

.PHONY: mutate
mutate: setup ## Send 100,000 broken requests to each database's server; ARGS="-mutations 5000 -mutation-seed 7"
	@scripts/with-postgres go test -v -count=1 -timeout 2h -run '^TestMutations$$' ./e2e -args -mutations 100000 $(ARGS)

.PHONY: bypass
bypass: setup ## Try 2,000 random sequences of calls on each database that could get a version past its gate or approvals; ARGS="-bypass-sequences 150"
	@scripts/with-postgres go test -v -count=1 -timeout 2h -run '^TestBypass$$' ./internal/app -args $(or $(ARGS),-bypass-sequences 2000)

.PHONY: expensive
expensive: setup ## Send every route the most expensive requests that its limits allow, 32 at once, to a server with 512 MiB
	@scripts/with-postgres go test -v -count=1 -timeout 2h -parallel 1 -run '^TestExpensive$$' ./e2e -args -expensive $(ARGS)

.PHONY: recount
recount: setup ## Recount all figures of 1,000 random streams on each database; ARGS="-rapid.checks=5000"
	@scripts/with-postgres go test -v -count=1 -timeout 2h -run '^TestRecount' ./internal/observe/telemetry ./internal/observe/costs ./internal/deliver/installations -args -rapid.checks=1000 $(ARGS)

.PHONY: promises
promises: ## Simulate what decisions promise, e.g. false alarms, and print the table with goals; a small sample is part of the tests
	@scripts/promises

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s), in turn; ARGS=FuzzPush runs one
	@scripts/fuzz $(ARGS)

.PHONY: hostile
hostile: setup ## Try the hostile archives, sandbox escapes and bad clients, and count them
	@go test -v -count=1 -run '^(TestReadRefuses|TestUploadRefusesHostile|TestBubblewrap|TestBroken|TestSlowClients|TestClients|TestManyConnections|TestPathTricks)' \
		./internal/skill/skillpkg ./internal/engine/sandbox ./internal/app

.PHONY: bench
bench: ## Run the benchmarks; ARGS are theirs
	cd bench && go run . $(ARGS)

.PHONY: lint
lint: ## Check formatting, vet, golangci-lint, go.mod and scripts
	@scripts/lint

.PHONY: fmt
fmt: ## Format all Go files and templates
	scripts/tool gofumpt -w .
	go -C tools run ./templates -w ../internal/web/templates

.PHONY: generate
generate: ## Write generated code, the OpenAPI document and the schema of SQLite anew
	go generate ./...
	go test ./internal/app -run TestOpenAPIGolden -update
	go test ./internal -run "^(TestArchitectureDocument|TestHouse)$$" -update
	go test ./internal/platform/store -run TestSchemaOfEmptyDatabase -update

.PHONY: house
house: ## Measure the code as outside reviews did, and print the figures beside those of other projects
	@go test -v -count=1 ./internal -run '^TestHouse$$' -args -house | grep '^|'

.PHONY: clean
clean: ## Remove what was built; the data in data/ stay
	rm -rf bin dist coverage.*
