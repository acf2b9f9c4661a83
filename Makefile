# Needs Go and a C compiler; everything else is fetched by Go, at the versions named here.

GOTESTSUM     := go run gotest.tools/gotestsum@v1.13.0
GOVULNCHECK   := go run golang.org/x/vuln/cmd/govulncheck@v1.9.0
LICENCES      := go run go.elastic.co/go-licence-detector@v0.11.1
GOLANGCI_LINT := $(or $(shell command -v golangci-lint),go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.5.0)

VERSION := $(or $(shell git describe --tags --always --dirty 2>/dev/null),dev)
COMMIT  := $(or $(shell git rev-parse --short=12 HEAD 2>/dev/null),unknown)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# make test RUN=TestName PACKAGES=./internal/orders/...
PACKAGES ?= ./...
RUN      ?= .
# make torture ROUNDS=1000 SEED=42; TORTURE_KAFKA and TORTURE_DATABASE_URL: docs/reliability.md
ROUNDS   ?= 20
SEED     ?=
# make demo ARGS=-h; make recovery ARGS='-outage 60m -backlog 100000'
ARGS     ?=

.DEFAULT_GOAL := help
.PHONY: help demo build check test e2e lint fmt vuln licenses bench recovery torture clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## build, then run the service, Kafka, Postgres, a provider and a shop in one process
	@bin/billing demo $(ARGS)

build: ## build bin/billing
	go build -trimpath -ldflags '$(LDFLAGS)' -o bin/billing ./cmd/billing

# These packages start servers by themselves, without the testkit, which skips under -short.
STARTS_SERVERS := /internal/(e2e|demo/broker|demo/postgres)$$|/load/(netcut|recovery|torture)$$
# Packages with a change that is not committed yet.
CHANGED         = $(sort $(dir $(shell git diff --name-only --diff-filter=d HEAD -- '*.go'; git ls-files -o --exclude-standard -- '*.go')))

check: ## what to run all day: format, vet, lint of what is not committed yet, and the tests that need no server
	@test -z "$$(gofmt -l . | tee /dev/stderr)"
	go vet ./...
	$(if $(CHANGED),$(GOLANGCI_LINT) run $(addprefix ./,$(CHANGED)))
	go test -short -vet=off -ldflags=-w $$(go list ./... | grep -vE '$(STARTS_SERVERS)')

# The report is for .ci/run, which counts in it. -count=1: a test against a server is never taken from the cache.
test: ## run all tests with the race detector; they start their own Kafka and Postgres
	@mkdir -p bin
	$(GOTESTSUM) --format pkgname --format-hide-empty-pkg --jsonfile bin/test.json -- -race -count=1 -timeout 25m -run '$(RUN)' $(PACKAGES)

e2e: ## run the end-to-end tests alone; BILLING_TEST_KAFKA_BROKERS and BILLING_TEST_DATABASE_URL make them use real servers
	@mkdir -p bin
	$(GOTESTSUM) --format testname --jsonfile bin/e2e.json -- -count=1 -timeout 25m -run '$(RUN)' ./internal/e2e/...

lint: ## check formatting and code
	@test -z "$$(gofmt -l . | tee /dev/stderr)"
	go vet ./...
	$(GOLANGCI_LINT) run

fmt: ## format the code
	gofmt -w .

vuln: ## look for known vulnerabilities in the code that is called; asks vuln.go.dev
	$(GOVULNCHECK) ./...

# The modules that are compiled, tests included. .licenses has the list of what is allowed, and what no program can tell.
licenses: ## list the licences of all modules, and fail when one is not allowed
	@mkdir -p bin
	@go list -m -json $$(go list -deps -test -f '{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}' ./... | sort -u) | \
		$(LICENCES) -includeIndirect -rules .licenses/rules.json -overrides .licenses/overrides.json \
		-depsTemplate .licenses/table.tmpl -depsOut bin/licenses.txt
	@cat bin/licenses.txt

bench: ## measure against a plain loop and against the floor; prints one table
	go run ./load/bench $(ARGS)

recovery: ## measure recovery, take-over and stop under faults, and fail when a figure is missed
	go run ./load/recovery $(ARGS)

torture: ## break everything, round after round, and count lost and double charges
	go run ./load/torture -rounds $(ROUNDS) $(if $(SEED),-seed $(SEED)) $(ARGS)

clean: ## remove what was built
	rm -rf bin
