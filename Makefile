# Everything that a person or a machine does with this repository. CI runs the
# same targets, through .ci/run.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# One set of flags for every test build: another set compiles everything anew.
TEST := go test -race
GO_FILES := git ls-files --cached --others --exclude-standard '*.go'

# How many failovers "make test-faults" forces, in how many elections at once.
FAILOVERS ?= 1000
ELECTIONS ?= 4

# What to give to the benchmarks, such as BENCH="-short" or BENCH="-only worker".
BENCH ?=

# What "make static" and "make image" call what they build.
VERSION ?=
IMAGE ?= leaderbridge:0.1.0

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the command to bin/leaderbridge
	go build -o bin/leaderbridge ./cmd/leaderbridge

# How the Dockerfile and .goreleaser.yaml build it too; a test compares them.
.PHONY: static
static: ## Build the command as it is released to bin/leaderbridge-static
	CGO_ENABLED=0 go build -trimpath -buildvcs=true \
		-ldflags "-s -w -buildid= -X github.com/leaderbridge/leaderbridge/internal/buildinfo.version=$(VERSION)" \
		-o bin/leaderbridge-static ./cmd/leaderbridge

.PHONY: image
image: ## Build the container image (VERSION=v1.2.3 IMAGE=leaderbridge:1.2.3)
	docker build --build-arg VERSION=$(VERSION) --tag $(IMAGE) .

.PHONY: demo
demo: build ## Elections, failovers and a worker on this machine, with nothing installed
	bin/leaderbridge demo

.PHONY: controlplane
controlplane: ## Build the test API server and etcd, unless they are there (once, about ten minutes)
	go -C test/controlplane run ./cmd/build

.PHONY: test-tools
test-tools: ## Build promtool, the OTLP receiver, kustomize and helm for the tests, unless they are there (once, about six minutes)
	go run ./test/testenv/toolenv/build

# Packages are compiled before the first test runs, so that tests which measure
# time do not share the machine with the compiler.
.PHONY: test
test: ## Run every test, the real API server and NATS included
	assets=$$(go -C test/controlplane run ./cmd/build); \
	go run ./test/testenv/toolenv/build; \
	go list -race -test -deps -export ./... >/dev/null; \
	KUBEBUILDER_ASSETS=$$assets $(TEST) -timeout 20m ./...

.PHONY: test-faults
test-faults: ## Search long for promises that faults break (FAILOVERS=1000, ELECTIONS=4)
	assets=$$(go -C test/controlplane run ./cmd/build); \
	KUBEBUILDER_ASSETS=$$assets LEADERBRIDGE_FAULTS_FAILOVERS=$(FAILOVERS) LEADERBRIDGE_FAULTS_ELECTIONS=$(ELECTIONS) $(TEST) -timeout 0 -count 1 -v ./test/faults/...

.PHONY: test-static
test-static: static ## Run the command as it is released in an empty root (as root; all is compiled anew, minutes)
	LEADERBRIDGE_STATIC=$(CURDIR)/bin/leaderbridge-static $(TEST) -count 1 -v -run TestStatic ./test/deploy

.PHONY: bench
bench: ## Measure beside client-go and bare clients, and write docs/performance.md (about ten minutes)
	assets=$$(go -C test/controlplane run ./cmd/build); \
	KUBEBUILDER_ASSETS=$$assets go run ./bench $(BENCH)

.PHONY: check
check: format-check tidy-check vet lint ## Everything that CI checks before it runs the tests

.PHONY: format-check
format-check:
	@bad=$$($(GO_FILES) | xargs gofmt -l); \
	if [ -n "$$bad" ]; then echo "not formatted, run \"make fmt\":" $$bad >&2; exit 1; fi

.PHONY: tidy-check
tidy-check:
	go mod tidy -diff
	go -C tools mod tidy -diff

.PHONY: vet
vet: ## Run go vet
	go vet -race ./...
	go -C test/controlplane vet ./cmd/build
	go -C test/otel vet ./cmd/...
	go -C test/promtool vet ./cmd/...
	go -C test/release vet ./cmd/...

.PHONY: lint
lint: ## Run golangci-lint at the version pinned in tools/go.mod
	tools/golangci-lint run

.PHONY: fmt
fmt: ## Format the code
	$(GO_FILES) | xargs gofmt -w
