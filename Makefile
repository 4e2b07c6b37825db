# txmgr: build, test and try it. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

export GOTOOLCHAIN ?= local

GO       ?= go
TOOL      = $(GO) tool -modfile=tools/go.mod
FUZZTIME ?= 3s
SEEDS    ?= 2000
BENCH    ?= .
PKG      ?= ./...
COUNT    ?= 6

# Modules of their own below the root, for example of benchmarks that link what
# the product must not.
NESTED = $(filter-out ./tools,$(patsubst %/go.mod,%,$(wildcard ./*/go.mod ./*/*/go.mod)))

# What runs goroutines, and so is worth the race detector's time: everything but
# the core, which starts none, the tests of source and documentation, and the bank,
# cluster and crash tests, whose server is a program of its own. The simulation has fewer
# runs there, and a line of its own.
RACE = $(shell $(GO) list ./... | grep -vE '/(timeout(/(heap|wheel|survival|timeouttest))?|txn/machine|cmd/txmgr|internal/(archtest|bank|cluster|crash|doctest|family|gosrc|planted|plantedtest|sim))$$')

.PHONY: help demo build test check unit sim sim-adaptive race planted fuzz bench generate generated deps nested clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## the guided tour: real transactions, faults and deadlines, in a minute
	$(GO) run ./cmd/txmgr demo

build: ## bin/txmgr
	$(GO) build -trimpath -o bin/txmgr ./cmd/txmgr

test: deps check generated nested demo unit sim planted fuzz race ## all that CI runs; installs what is missing (root on Debian)

check: ## format, vet, staticcheck, go.mod, house rules
	@echo '== gofumpt'
	@unformatted=$$($(TOOL) gofumpt -l .); [ -z "$$unformatted" ] || { echo "not formatted; run: $(TOOL) gofumpt -w" $$unformatted >&2; exit 1; }
	@echo '== go vet'
	@$(GO) vet ./...
	@$(GO) vet -tags failpoint ./...
	@echo '== staticcheck'
	@$(TOOL) staticcheck ./...
	@echo '== go mod tidy'
	@for m in . tools $(NESTED); do $(GO) -C "$$m" mod tidy -diff; done
	@echo '== house rules'
	@$(GO) test ./internal/archtest

unit: ## every test once, with private databases
	$(GO) test -count=1 -timeout 15m ./...

sim: ## SEEDS (2000) runs of the simulated cluster; SEEDS=100000 for a night
	TXMGR_SIM_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 0 -run 'TestSim$$' -v ./internal/sim

sim-adaptive: ## optimizers of the worker pool against the best fixed limits, with three seeds; prints all scores
	$(GO) test -count=1 -timeout 30m -v ./internal/adaptivesim -args -adaptivesim.seeds=3

# The race detector makes nothing of a test that weighs memory, and a minute of the large
# storm, which has no goroutine that the small one has not. And raft 1.8 reads a server
# without its lock, for the id that stays, while a leader gives it a new address
# (startStopReplication, updateLastAppended): a race in raft, and not ours to mend.
NORACE = ^(TestAMillionLeaveNothing|TestAMajorityMovesToOtherAddresses)$$|^TestStorm$$/^100000$$

race: ## the packages that run goroutines, under the race detector
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 20m -skip '$(NORACE)' $(RACE)
	CGO_ENABLED=1 $(GO) test -race -count=1 -run 'Snapshot|Readers|Scan' ./txn/machine
	CGO_ENABLED=1 TXMGR_SIM_SEEDS=40 $(GO) test -race -count=1 -timeout 20m -skip TestPlantedBugs ./internal/sim

planted: ## one bug after the other is planted: each must be caught by the test that guards against it
	@$(GO) vet -tags planted ./internal/planted
	$(GO) test -tags planted -count=1 -timeout 20m -v -run TestPlants ./internal/planted

fuzz: ## every fuzz target for FUZZTIME (3s)
	@FUZZTIME=$(FUZZTIME) scripts/fuzz

bench: ## benchmarks: PKG=./timeout/survival BENCH=Add COUNT=6, summed up by benchstat
	@mkdir -p bin
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG) | tee bin/bench.txt
	$(TOOL) benchstat bin/bench.txt

generate: ## the API's Go code, and the pages that the program writes
	api/generate.sh
	$(GO) test ./internal/archtest -run Page -update
	$(GO) test ./internal/doctest -run ReferenceCLI -update

generated: ## fails when the committed API code is not what its sources give
	@echo '== generated code'
	@api/generate.sh --check

nested: ## vet the modules below the root
	@for m in $(NESTED); do echo "== go vet $$m"; $(GO) -C "$$m" vet ./...; done

deps: ## install the programs that the tests need, or say which
	@scripts/deps

clean: ## remove what was built
	rm -rf bin
