# Everything that a person or a machine does with this repository. CI runs
# these targets too, through .ci/run.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# One set of flags for every test build: another set compiles everything anew.
TEST := go test -race

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the command to bin/leaderbridge
	go build -o bin/leaderbridge ./cmd/leaderbridge

.PHONY: controlplane
controlplane: ## Build the test API server and etcd, unless they are there (once, about ten minutes)
	go -C test/controlplane run ./cmd/build

.PHONY: test
test: ## Run every test, the real API server and NATS included
	assets=$$(go -C test/controlplane run ./cmd/build); \
	KUBEBUILDER_ASSETS=$$assets $(TEST) -timeout 20m ./...

.PHONY: fmt
fmt: ## Format the code
	gofmt -w $$(git ls-files '*.go')
