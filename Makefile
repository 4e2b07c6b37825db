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
VERSION  ?= $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null)
TIME     ?= 3m

# Modules of their own below the root, for example of benchmarks that link what
# the product must not.
NESTED = $(filter-out ./tools,$(patsubst %/go.mod,%,$(wildcard ./*/go.mod ./*/*/go.mod)))

# What needs neither a database, nor root, nor the network, and does not take long.
QUICK = $(shell $(GO) list ./... | grep -vE '/(cmd/txmgr|examples/(mailer|sdk|transfer)|participant/(mariadb|postgres|web)|internal/(adaptivebench|adaptivesim|adaptivestudy|bank|cluster|crash|doctest|model|planted|sim|soak|testdb|timeoutbench))$$')

# What `make test` adds: real databases, and programs that are killed.
REAL = $(shell $(GO) list ./... | grep -E '/(cmd/txmgr|examples/(mailer|sdk|transfer)|participant/(mariadb|postgres|web)|internal/(adaptivebench|adaptivesim|adaptivestudy|bank|crash|doctest|planted|testdb|timeoutbench))$$')

# What `make ci` adds to both: several nodes, and many runs.
LONG = $(shell $(GO) list ./... | grep -E '/internal/(cluster|sim)$$')

# What runs goroutines, and so is worth the race detector's time: everything but
# the core, which starts none, the tests of source and documentation, the models, and the bank,
# cluster, crash and soak tests, whose server is a program of its own. The simulation has fewer
# runs there, and a line of its own.
RACE = $(shell $(GO) list ./... | grep -vE '/(timeout(/(heap|wheel|survival|timeouttest))?|txn/machine|recovery/(breaker|call|history|plan|queue|scan)|cmd/txmgr|internal/(archtest|bank|cluster|crash|doctest|model|planted|ruletest|sim|soak|sourcetree|timeoutadapters))$$')

.PHONY: help demo build quick test ci check long model slowest soak sim sim-adaptive race locks planted mutants fuzz bench generate generated deps nested clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## the demo: real transactions, faults and deadlines, in a minute
	$(GO) run ./cmd/txmgr demo

build: ## bin/txmgr, stamped with VERSION: the last tag and the commit
	$(GO) build -trimpath -ldflags '-X github.com/txmgr/txmgr/internal/buildversion.release=$(VERSION)' -o bin/txmgr ./cmd/txmgr

quick: ## no database, no root, no network: at most 3 minutes on two cores
	@echo '== go vet'
	@$(GO) vet ./...
	$(GO) test -count=1 -timeout 5m $(QUICK)

test: deps check ## quick, and all on real databases; installs what is missing (root on Debian): at most 10 minutes
	$(GO) test -count=1 -timeout 10m $(QUICK)
	$(GO) test -count=1 -timeout 15m $(REAL)

ci: test generated nested demo long model soak sim planted fuzz race locks ## all that CI runs: less than an hour

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

long: ## three nodes with faults of network and disk, and the simulation's own tests
	$(GO) test -count=1 -timeout 15m $(LONG)

model: deps ## the commit protocol as models, every order of steps searched by Spin; prints all searches
	$(GO) test -count=1 -timeout 30m -v ./internal/model

slowest: ## the tests that take longest: PKG=./node/...
	@scripts/slowest $(PKG)

# By itself: beside the tests of other packages it would measure how busy they keep the machine.
soak: ## everything that the API offers at once, under faults, for TIME (3m); then what is left is compared; TIME=1h
	$(GO) test -count=1 -timeout 0 -v ./internal/soak -soak.time $(TIME)

sim: ## SEEDS (2000) runs of the simulated cluster; SEEDS=100000 for a night
	TXMGR_SIM_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 0 -run 'TestSim$$' -v ./internal/sim

sim-adaptive: ## optimizers of the worker pool against the best fixed limits, with three seeds; prints all scores
	$(GO) test -count=1 -timeout 30m -v ./internal/adaptivesim -args -adaptivesim.seeds=3
	$(GO) test -count=1 -timeout 30m -run PageOfStudies ./internal/adaptivestudy -args -adaptivestudy.studies=4

# Not worth the race detector's time: a test that weighs memory; what computes for long in one
# goroutine (TestCeilings, TestSlowTasks, and the tests that damage a file of the log store bit by bit and
# page by page; TestConcurrentUse is for its goroutines); and long tests without a goroutine that a shorter one has
# not: a minute of the large storm, and two tests of studies, whose workers also run in
# TestInterruptedStudyKeepsWhatThereIs and TestCompareIsTheSameWithManyAtOnce. And raft 1.8 reads a
# server without its lock, for the id that stays, while a leader gives it a new address
# (startStopReplication, updateLastAppended): a race in raft, and not ours to mend.
NORACE = ^(TestAMillionLeaveNothing|TestAMajorityMovesToOtherAddresses|TestCeilings|TestPublishedValueIsAmongThem|TestSimulate|TestSlowTasks|TestEveryBitFlip|TestMoveAfterBitFlip|TestOpenAfterBitFlip|TestOpenAfterTruncation|TestLostPageWrite)$$|^TestStorm$$/^100000$$

race: ## the packages that run goroutines, under the race detector
	CGO_ENABLED=1 $(GO) test -race -count=1 -timeout 20m -skip '$(NORACE)' $(RACE)
	CGO_ENABLED=1 $(GO) test -race -count=1 -run 'Snapshot|Readers|Scan' ./txn/machine
	CGO_ENABLED=1 TXMGR_SIM_SEEDS=40 $(GO) test -race -count=1 -timeout 20m -skip TestPlantedBugs ./internal/sim

# A mutex that is watched allocates; the other two take one lock a million times.
NOLOCKS = ^(TestRotationAllocatesNothing|TestAMillionLeaveNothing|TestEveryBitFlip)$$

# What has mutexes of the product's and tests that do not start a program: 40 runs of the simulation take them all.
locks: ## the packages with mutexes, each mutex watched for recursion and for two orders
	$(GO) run -C tools/locks . -- -count=1 -timeout 20m -skip '$(NOLOCKS)' ./adaptive ./client ./node/... ./participant/... ./raftfsm/... ./recovery/... ./server/... ./timeout/hashbelt ./timeout/purgatory ./timeout/wheel/runner ./txn ./txn/txnhttp ./txn/txntest
	TXMGR_SIM_SEEDS=40 $(GO) run -C tools/locks . -- -count=1 -timeout 20m -run 'TestSim$$' ./internal/sim

planted: ## one bug after the other is planted: each must be caught by the test that guards against it
	@$(GO) vet -tags planted ./internal/planted
	$(GO) test -tags planted -count=1 -timeout 20m -v -run TestPlants ./internal/planted

mutants: ## random one-token changes that no test notices: PKG=./recovery N=20 TIME=10m SEED=1 ARGS='-short -not Storm'
	@$(GO) -C tools build -o ../bin/mutants ./mutants
	nice bin/mutants -n $(or $(N),20) -time $(TIME) -seed $(or $(SEED),1) $(ARGS) $(if $(filter ./...,$(PKG)),./recovery,$(PKG))

fuzz: ## every fuzz target for FUZZTIME (3s)
	@FUZZTIME=$(FUZZTIME) scripts/fuzz

bench: ## benchmarks: PKG=./timeout/survival BENCH=Add COUNT=6, summed up by benchstat
	@mkdir -p bin
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG) | tee bin/bench.txt
	$(TOOL) benchstat bin/bench.txt

generate: ## the API's Go code, and the pages that the program writes
	api/generate.sh
	$(GO) test ./internal/archtest -run Page -update
	$(GO) test ./internal/doctest -run Reference -update

generated: ## fails when the committed API code is not what its sources give
	@echo '== generated code'
	@api/generate.sh --check

nested: ## vet the modules below the root, and test the tools
	@for m in tools $(NESTED); do echo "== go vet $$m"; $(GO) -C "$$m" vet ./...; done
	$(GO) -C tools test -count=1 ./...
	$(GO) -C tools/locks test -count=1 ./...

deps: ## install the programs that the tests need, or say which
	@scripts/deps

clean: ## remove what was built
	rm -rf bin
