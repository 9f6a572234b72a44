# `make` lists the targets. Each target installs what it needs: on a fresh machine with Go,
# git and make, `make demo`, `make test` and `make install` work.

GO     ?= go
# The pinned linter. It is compiled once, into bin/, and kept between runs.
GOLANGCI_VERSION := v2.12.2
GOLANGCI         := bin/golangci-lint-$(GOLANGCI_VERSION)
ACTIONLINT_VERSION := v1.7.12
ACTIONLINT         := bin/actionlint-$(ACTIONLINT_VERSION)
# The linter's cache names files of the checkout. A shared cache would report files of a
# checkout that was removed.
export GOLANGCI_LINT_CACHE := $(CURDIR)/bin/lint-cache
# A containerd with NRI, which Debian 12 does not have: TestNRI.
CONTAINERD_VERSION := v2.2.9
CONTAINERD         := bin/containerd-$(CONTAINERD_VERSION)
# A control plane: TestCluster.
KUBERNETES_VERSION := v1.34.1
KUBERNETES         := bin/kubernetes-$(KUBERNETES_VERSION)
# Kubernetes' plugin for shared RDMA devices: TestDevicePlugin. A module of its own builds it, because
# its go.mod has replace lines.
DEVICEPLUGIN       := bin/k8s-rdma-shared-dp

SEEDS      ?= 100000
FUZZTIME   ?= 1m
HOSTILE    ?= 30m
SOAK       ?= 1h
KILLS      ?= 200
BENCH      ?= .
BENCHTIME  ?= 1s
ROWS       ?=
PACKETS    ?= 1000000
# Where `make install` puts files. DESTDIR is for packages.
PREFIX     ?= $(if $(shell test -w /usr/local && echo yes),/usr/local,$(HOME)/.local)

.DEFAULT_GOAL := help
.PHONY: help have-go install uninstall build pictures packages debians test-packages test-containers test-kubernetes test-labs test-sanitizers test-libvma demo test unit race e2e interop interop-full interop-broken compat record vet fuzz soak hostile rehearse ucx-gtest kills soak-programs bench cores scale pcap-speed lint prose oracles fmt clean setup

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  Variables: SEEDS=$(SEEDS) (soak), FUZZTIME=$(FUZZTIME) (fuzz, per target),"
	@echo "             BENCH=$(BENCH) BENCHTIME=$(BENCHTIME) ROWS=$(ROWS) (bench; go run ./scripts/bench -h)"

have-go:
	@GO="$(GO)" ./scripts/have-go.sh

build: have-go ## Build bin/gorxe, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/gorxe ./cmd/gorxe

install: ## Install gorxe, manual pages and completion into PREFIX=/usr/local, or ~/.local if you are not root
	@GO="$(GO)" ./scripts/install.sh "$(DESTDIR)" "$(PREFIX)"

uninstall: ## Remove what make install has installed
	@./scripts/install.sh --remove "$(DESTDIR)" "$(PREFIX)"

pictures: build ## Record docs/session.svg and docs/verdict.png again, from real runs; best on a quiet machine
	$(GO) run ./scripts/recording
	./scripts/verdict-picture.sh

packages: have-go ## Make archives, deb, rpm, apk, SBOMs and checksums in bin/packages, offline
	@echo "compiling the program that makes packages (once; minutes on two cores)"
	@cd scripts/packages && $(GO) run .

# Those that take longest, or need Docker.
CONTAINER_TESTS := TestRuntimeLeavesNothing|TestPodsKilled|TestSharedDaemon|TestDocker|TestARM64
LAB_TESTS := TestLab
KUBERNETES_TESTS := TestCritest|TestCRI|TestNRI|TestCluster

debians: ## Make the Debians and the package repository of make test-packages, once
	@./scripts/setup.sh packages
	@./scripts/debian-root.sh & root=$$!; ./scripts/debian-offline.sh && wait $$root

test-packages: debians ## Test what make packages makes, the README, the image and the runtime, offline, in Debians of their own
	$(GO) build -o bin/gotest ./scripts/gotest
	cd scripts/packages && $(GO) vet .
	cd scripts/packages && ../../bin/gotest -timeout 20m -count=1 -parallel 4 -skip '$(CONTAINER_TESTS)|$(LAB_TESTS)|$(KUBERNETES_TESTS)' .

test-containers: ## Test the runtime with Docker, a shared daemon and pods, 100 kills, and the binary for arm64
	@./scripts/setup.sh containers
	cd scripts/packages && $(GO) vet . && $(GO) test -timeout 30m -count=1 -run '$(CONTAINER_TESTS)' .

test-kubernetes: $(CONTAINERD) $(KUBERNETES) ## Test dist/kubernetes with a control plane, and with the pods of containerd 1.6 and 2.2
	@./scripts/setup.sh kubernetes
	@./scripts/debian-root.sh
	cd scripts/packages && $(GO) vet . && $(GO) test -timeout 60m -count=1 -v -run '$(KUBERNETES_TESTS)|TestKubernetes|TestKustomize' .

test-labs: ## Test examples/labs with podman-compose, docker-compose, Slurm and gorxe lab
	@./scripts/setup.sh labs
	@./scripts/debian-root.sh && ./scripts/debian-root.sh slurm
	cd scripts/packages && $(GO) test -timeout 30m -count=1 -run '$(LAB_TESTS)' -v .

test-sanitizers: ## Test dist/include/gorxe_sanitize.h with MemorySanitizer and ThreadSanitizer
	@./scripts/setup.sh sanitizers
	GORXE_E2E=full $(GO) test -timeout 10m -count=1 -run TestSanitizers ./internal/test/e2e

test-libvma: ## Compile libvma from GitHub, or from LIBVMA_SOURCE, and test it with sockperf and iperf3
	@./scripts/setup.sh libvma
	./scripts/libvma.sh bin/libvma
	GORXE_LIBVMA=$(CURDIR)/bin/libvma/libvma.so $(GO) test -timeout 20m -count=1 -v -run TestLibvma ./internal/test/e2e

demo: have-go ## Run stock RDMA programs under gorxe run, then two devices over UDP
	@./scripts/setup.sh demo
	@$(MAKE) --no-print-directory build
	@./scripts/demo.sh

# Programs of unit mostly wait, and the emulated machine of interop has one processor: both run at
# once.
test: setup vet ## Run what CI tests: vet, all tests, a kernel's rdma_rxe, all tests under -race
	@$(MAKE) --no-print-directory -j2 unit interop
	@$(MAKE) --no-print-directory race

# The race detector finds nothing in a package that starts no goroutine and uses no unsafe pointer,
# as scripts/docs checks of these. make unit runs their tests.
SEQUENTIAL := internal/cm|internal/cm/sim|internal/fault/rulefile|internal/kernel/dispatch|internal/kernel/nldev|internal/kernel/tree|internal/mgmt/sma|internal/pcap/ladder|internal/pcap/pairflows|internal/pcap/read|internal/pcap/replay|internal/pcap/report|rocev2/capture|rocev2/conformance|rocev2/layers|scripts/docs|scripts/prose|wire

# In CI the tests run as beside another gorxe, which has the loopback addresses.
TAKEN := $(if $(CI),-taken)

# The command is built without cgo. What compiles the same packages does the same, so that they are
# compiled once.
NOCGO := CGO_ENABLED=0

# The tests that take longest start first, and the other packages run beside them. One package more
# runs at once than there are processors, because that one mostly waits.
EVERYTHING := ./internal/test/e2e ./internal/trap ./rxe/sim ./...
AT_ONCE    := -p $(shell expr $$(nproc) + 1)

unit: ## Run all tests once, in random order
	$(NOCGO) $(GO) run ./scripts/gotest $(TAKEN) $(AT_ONCE) -timeout 30m -shuffle=on $(EVERYTHING)

# The tests of stock programs build the command, whose packages are compiled before, so that this does
# not happen twice at a time.
#
# CI sets RACE_PROGRAMS_UNTIL, in seconds since 1970: a slow machine leaves out stock programs under
# the race detector.
race: ## Run all tests under the race detector, with fewer simulation seeds
	CGO_ENABLED=1 $(GO) list -race -export ./cmd/gorxe > /dev/null
	without='$(SEQUENTIAL)'; \
	if [ "$$(date +%s)" -gt "$${RACE_PROGRAMS_UNTIL:-$$(date +%s)}" ]; then \
		echo "race: left out internal/test/e2e: the machine is slow"; without="$$without|internal/test/e2e"; \
	fi; \
	packages=$$($(GO) list $(EVERYTHING) | grep -vE "/gorxe/($$without)\$$") && \
		CGO_ENABLED=1 $(GO) run ./scripts/gotest $(TAKEN) $(AT_ONCE) -timeout 30m -race -shuffle=on $$packages

e2e: setup $(DEVICEPLUGIN) ## Run every case of stock programs under gorxe run (KILLS=200)
	@./scripts/setup.sh sanitizers
	./scripts/newer-rdma-core.sh bin/rdma-core-newest sid
	./scripts/dpdk-root.sh bin/dpdk-bookworm bookworm
	./scripts/dpdk-root.sh bin/dpdk-trixie trixie
	./scripts/promtool.sh bin
	GORXE_E2E=full GORXE_KILLS=$(KILLS) GORXE_KILLS_EACH=$(KILLS) $(GO) run ./scripts/gotest -timeout 2h -count=1 ./internal/test/e2e

interop: setup ## Test against Debian 12's rdma_rxe in an emulated machine: a selection
	GORXE_INTEROP=quick $(GO) run ./scripts/gotest -timeout 20m -count=1 ./internal/test/interop

interop-full: setup ## Test all of that, with newer kernels too; writes testdata/pcaps/interop*.md
	GORXE_INTEROP=full $(GO) run ./scripts/gotest -timeout 4h -count=1 ./internal/test/interop -update

interop-broken: setup ## Prove that make interop can fail: build gorxe with one mistake, three times
	./scripts/broken-builds.sh

compat: setup ## Compare with the kernel's rdma_rxe, and write docs/compatibility.md and the pages in internal/test/e2e/testdata
	./scripts/newer-rdma-core.sh bin/rdma-core-newest sid
	$(GO) test -count=1 -run 'TestRDMACore|TestDevinfo|TestErrnos|TestUCX|TestMPI|TestTranscripts|TestMeetings' ./internal/test/e2e -update
	GORXE_E2E=full $(GO) test -count=1 -run 'TestRaceCases' ./internal/test/e2e -update

record: setup ## Record what rdma_rxe says to rdma-core's tests, rdma and infiniband-diags, for make compat
	./scripts/newer-rdma-core.sh bin/rdma-core-newest sid
	GORXE_INTEROP=quick $(GO) test -timeout 60m -count=1 ./internal/test/interop -run TestRecord -record

vet: ## Run go vet
	$(NOCGO) $(GO) vet ./...

oracles: setup ## Run only the tests that compare with tshark, scapy and captures
	$(GO) run ./scripts/gotest -timeout 10m -count=1 -run 'Tshark|Scapy|ICRC|Capture' ./wire ./rocev2/...

pcap-speed: ## Measure gorxe pcap check beside tshark (PACKETS=10000000 needs 11 GB)
	GORXE_PACKETS=$(PACKETS) $(GO) test ./rocev2/conformance -run '^$$' -bench BesideTshark -benchtime 1x -timeout 1h

fuzz: ## Run each fuzz target for FUZZTIME
	./scripts/fuzz.sh $(FUZZTIME)

soak: ## Run SEEDS simulations
	GORXE_SEEDS=$(SEEDS) $(GO) test -v -timeout 0 -count=1 -run TestSeeds ./rxe/sim ./internal/cm/sim ./internal/segment/sim

hostile: setup ## Attack a daemon and a device beside honest programs, for HOSTILE each
	GORXE_HOSTILE=$(HOSTILE) $(GO) test -v -timeout 0 -count=1 -run 'TestHostile|TestBesideFlood' ./internal/test/e2e ./internal/test/hostile

rehearse: setup ## Run examples/ncclnet with SEEDS=1000 seeds of fault rules
	GORXE_NCCL_SEEDS=$(if $(filter-out file,$(origin SEEDS)),$(SEEDS),1000) $(GO) test -v -timeout 0 -count=1 -run TestNCCLNet ./internal/test/e2e

ucx-gtest: build ## Build UCX's own tests once, an hour, and run them over rc_mlx5 and rc_verbs
	./scripts/ucx-gtest.sh bin/gorxe bin/ucx

kills: setup ## Kill programs, keepers, fronts and daemons, KILLS times each
	GORXE_E2E=full GORXE_KILLS=$(KILLS) GORXE_KILLS_EACH=$(KILLS) $(GO) test -v -timeout 0 -count=1 -run 'Kill|StopDaemon' ./internal/test/e2e

soak-programs: setup ## Start and kill programs of two daemons for SOAK, 20 at a time
	GORXE_SOAK=$(SOAK) $(GO) test -v -timeout 0 -count=1 -run TestSoak ./internal/test/e2e

bench: setup ## Measure stock programs and Go benchmarks, beside plain UDP
	$(GO) run ./scripts/bench -rows '$(ROWS)'
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem -timeout 1h ./...

scale: setup ## Measure 1, 10 and 100 idle pods, and 1,000 nodes that connect to each other
	$(GO) run ./scripts/scale
	$(GO) run ./scripts/scale ibv_rc_pingpong -d rxe0 -g 1
	GORXE_NODES=1000 $(GO) test -v -count=1 -timeout 1h -run TestMesh ./internal/cm/sim

cores: setup ## Measure 1 to 16 pairs of programs at once; bin/cores then runs on any x86-64 Linux
	@./scripts/cores.sh bin/cores

lint: prose $(GOLANGCI) $(ACTIONLINT) ## Check gofmt, golangci-lint with the layers of ARCHITECTURE.md, workflows, and the English
	@bad=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$bad" ]; then echo "not gofmt-ed:"; echo "$$bad"; exit 1; fi
	$(ACTIONLINT) examples/workflows/*.yml
	$(GOLANGCI) config verify
	$(NOCGO) $(GOLANGCI) run --allow-parallel-runners --timeout 15m ./...

prose: ## Check the English of documents, comments and messages
	$(GO) run ./scripts/prose
	$(GO) run ./scripts/prose -wrap

$(GOLANGCI):
	@echo "compiling golangci-lint $(GOLANGCI_VERSION) (once; a few minutes on two cores)"
	GOBIN=$(CURDIR)/$@.new $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $@.new/golangci-lint $@ && rmdir $@.new

$(KUBERNETES):
	@echo "compiling Kubernetes $(KUBERNETES_VERSION) (once; half an hour on two cores)"
	GO="$(GO)" ./scripts/control-plane.sh $(KUBERNETES_VERSION) $@

$(DEVICEPLUGIN): internal/test/e2e/testdata/deviceplugin/go.mod
	cd $(dir $<) && CGO_ENABLED=0 $(GO) build -trimpath -o $(CURDIR)/$@ github.com/Mellanox/k8s-rdma-shared-dev-plugin/cmd/k8s-rdma-shared-dp

$(CONTAINERD):
	@echo "compiling containerd $(CONTAINERD_VERSION) (once; ten minutes on two cores)"
	GOBIN=$(CURDIR)/$@.new CGO_ENABLED=0 $(GO) install $(addprefix github.com/containerd/containerd/v2/cmd/,$(addsuffix @$(CONTAINERD_VERSION),containerd containerd-shim-runc-v2 ctr))
	mv $@.new $@

$(ACTIONLINT):
	GOBIN=$(CURDIR)/$@.new $(GO) install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)
	mv $@.new/actionlint $@ && rmdir $@.new

fmt: ## Format every Go file
	gofmt -w $$(git ls-files '*.go')

setup: have-go ## Install the packages that the tests need, with apt-get or dnf, as root or by sudo
	@./scripts/setup.sh

clean: ## Remove the files that the targets made
	rm -rf bin demo.pcapng
