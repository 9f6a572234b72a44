# `make` lists the targets. Each sets up what it needs by itself: with Go and
# make on a fresh Debian machine, `make demo` and `make test` work.

GO     ?= go
# The pinned linter. It is compiled once, into bin/, and kept between runs.
GOLANGCI_VERSION := v2.12.2
GOLANGCI         := bin/golangci-lint-$(GOLANGCI_VERSION)
# What it remembers names files of the checkout: another one, gone since, would be
# complained about.
export GOLANGCI_LINT_CACHE := $(CURDIR)/bin/lint-cache

SEEDS      ?= 100000
FUZZTIME   ?= 1m
KILLS      ?= 200
BENCH      ?= .
BENCHTIME  ?= 1s
ROWS       ?=
PACKETS    ?= 1000000

.DEFAULT_GOAL := help
.PHONY: help build demo test unit race e2e interop interop-full interop-broken compat vet fuzz soak bench pcap-speed lint prose oracles fmt clean setup

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  Variables: SEEDS=$(SEEDS) (soak), FUZZTIME=$(FUZZTIME) (fuzz, per target),"
	@echo "             BENCH=$(BENCH) BENCHTIME=$(BENCHTIME) ROWS=$(ROWS) (bench; go run ./scripts/bench -h)"

build: ## Build bin/gorxe, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/gorxe ./cmd/gorxe

demo: build ## Stock RDMA programs under gorxe run; two devices over UDP: verify, measure, capture
	@./scripts/setup.sh demo
	@./scripts/demo.sh

test: setup vet unit interop race ## Everything CI tests: vet, all tests shuffled, a kernel's rdma_rxe, all again under -race

unit: ## All tests once, in random order
	$(GO) run ./scripts/gotest -timeout 20m -shuffle=on ./...

race: ## All tests under the race detector (fewer simulation seeds)
	CGO_ENABLED=1 $(GO) run ./scripts/gotest -timeout 15m -race -shuffle=on ./...

e2e: setup ## Stock programs under gorxe run: every case, not only those of make test (KILLS=200)
	GORXE_E2E=full GORXE_KILLS=$(KILLS) $(GO) run ./scripts/gotest -timeout 2h -count=1 ./internal/e2e

interop: setup ## Against Debian 12's rdma_rxe in an emulated machine: a selection
	GORXE_INTEROP=quick $(GO) run ./scripts/gotest -timeout 20m -count=1 ./internal/interop

interop-full: setup ## Everything, with a newer kernel too; writes testdata/pcaps/interop.md
	GORXE_INTEROP=full $(GO) run ./scripts/gotest -timeout 4h -count=1 ./internal/interop -update

interop-broken: setup ## That make interop can fail: give it a gorxe with one mistake, three times
	./scripts/broken-builds.sh

compat: setup ## Compare with the kernel's rdma_rxe again, and write docs/compatibility.md
	$(GO) test -count=1 -run 'TestRDMACore|TestDevinfo|TestErrnos|TestUCX|TestMPI' ./internal/e2e -update

vet: ## go vet
	$(GO) vet ./...

oracles: setup ## Only the tests that compare with tshark, scapy and captures
	$(GO) run ./scripts/gotest -timeout 10m -count=1 -run 'Tshark|Scapy|ICRC|Capture' ./wire ./rocev2/...

pcap-speed: ## gorxe pcap check beside tshark on a file made for it (PACKETS=10000000: 11 GB)
	GORXE_PACKETS=$(PACKETS) $(GO) test ./rocev2/conformance -run '^$$' -bench BesideTshark -benchtime 1x -timeout 1h

fuzz: ## Each fuzz target for FUZZTIME
	./scripts/fuzz.sh $(FUZZTIME)

soak: ## SEEDS simulation runs
	GORXE_SEEDS=$(SEEDS) $(GO) test -v -timeout 0 -count=1 -run TestSeeds ./rxe/sim

bench: setup ## Stock programs as a table, Go benchmarks with allocations, plain UDP in the same runs
	$(GO) run ./scripts/bench -rows '$(ROWS)'
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem -timeout 1h ./...

lint: prose $(GOLANGCI) ## gofmt, golangci-lint with the layer rules of ARCHITECTURE.md, and the prose check
	@bad=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$bad" ]; then echo "not gofmt-ed:"; echo "$$bad"; exit 1; fi
	$(GOLANGCI) config verify
	$(GOLANGCI) run --allow-parallel-runners --timeout 15m ./...

prose: ## The English of documents, comments and messages (go run ./scripts/prose -h)
	$(GO) run ./scripts/prose

$(GOLANGCI):
	@echo "compiling golangci-lint $(GOLANGCI_VERSION) (once; a few minutes on two cores)"
	GOBIN=$(CURDIR)/bin/lint-build $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv bin/lint-build/golangci-lint $@ && rmdir bin/lint-build

fmt: ## gofmt every file
	gofmt -w $$(git ls-files '*.go')

setup: ## Install what the tests need and is missing (apt-get, needs root)
	@./scripts/setup.sh

clean: ## Remove what the targets made
	rm -rf bin demo.pcapng
