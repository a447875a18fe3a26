# What can be done here. Everything needs Go; tests and the demo also need npm,
# for PostgreSQL binaries that the machine does not have.

GO ?= go
FUZZTIME ?= 60s
# -timeout is for one package: tests run real servers of three major versions. Those
# mostly wait, so more of them run at once than there are processors.
TESTFLAGS ?= -race -timeout 18m -parallel 4

# Of the package: the newest tag and how far behind it this is.
VERSION ?= $(or $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//; s/-/+/; s/-/./'),0.0.0~dev)
MAINTAINER := slotferry <slotferry@users.noreply.github.com>
# The package is the same, byte for byte, whenever it is made from one commit.
export SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),0)
NFPM := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0

.PHONY: all build generate static deb container test test-wal test-hold-back scale model lint vuln fuzz demo chaos soak bench bench-slots clean

all: build

# build makes bin/slotferry.
build:
	$(GO) build -trimpath -o bin/slotferry ./cmd/slotferry

# generate writes what is made from the commands, manual pages and completions,
# to internal/packaging. A test fails when they are stale.
generate:
	$(GO) test -count=1 -run TestGeneratedFilesAreFresh ./cmd/slotferry -rewrite-generated

# static makes the program as packages have it: it runs on every Linux.
static:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/static/slotferry ./cmd/slotferry

# deb makes bin/slotferry_VERSION_ARCH.deb and looks into it.
deb: static
	rm -rf bin/deb bin/slotferry_*.deb && mkdir -p bin/deb/man
	cp bin/static/slotferry bin/deb/
	for page in internal/packaging/man/*.1; do gzip -9nc $$page > bin/deb/man/$${page##*/}.gz; done
	gzip -9nc CHANGELOG.md > bin/deb/NEWS.gz
	printf 'slotferry (%s) unstable; urgency=medium\n\n  * Built from the sources: NEWS.gz says what is new.\n\n -- %s  %s\n' \
		'$(VERSION)' '$(MAINTAINER)' "$$(date -R -d @$(SOURCE_DATE_EPOCH))" | gzip -9n > bin/deb/changelog.gz
	ARCH=$$($(GO) env GOARCH) VERSION='$(VERSION)' MAINTAINER='$(MAINTAINER)' SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) \
		$(GO) run $(NFPM) package --packager deb \
		--config internal/packaging/nfpm.yaml --target bin/
	internal/packaging/check-deb bin/slotferry_*.deb

# container makes the image slotferry with podman, or with CONTAINER=docker.
container: static
	mkdir -p bin/static/state
	$(or $(CONTAINER),podman) build -t slotferry -f internal/packaging/Containerfile bin/static

# test runs all tests, those with real servers too. PostgreSQL 13 to 18 are
# found in SLOTFERRY_PG_BINDIRS, in /usr/lib/postgresql, or fetched into a cache.
# internal/rig and relay take long and mostly wait: they begin first, beside the others.
test:
	$(GO) test $(TESTFLAGS) ./internal/rig ./relay ./...

# test-wal compares 2 GiB of WAL on each major, segment by segment, where test
# does it with 128 MiB. It needs 20 GB of disk, for a while.
test-wal:
	SLOTFERRY_TEST_WAL_MIB=2048 $(GO) test $(TESTFLAGS) -count=1 -v -run TestWALOnDiskIsThePrimarys ./internal/rig

# test-hold-back kills 20 primaries on each major at random moments, with
# subscribers behind hold-back, where test kills one.
test-hold-back:
	SLOTFERRY_TEST_HOLDBACK_ROUNDS=20 $(GO) test $(TESTFLAGS) -count=1 -v -run TestFailoversLeaveSubscribers ./internal/rig

# scale measures what 500 slots in 20 databases cost, and how soon after its birth a
# slot is ready, beside PostgreSQL's own slot sync worker. Run it on a machine with
# nothing else to do: its figures are for people.
scale:
	$(GO) test -tags scale -count=1 -v -timeout 30m -run 'TestScale|TestInstantReadiness' ./internal/rig

# model runs MODELCHECKS random sequences of all that can happen to both servers and
# the helper, where test runs 10,000. A million takes some minutes.
MODELCHECKS ?= 1000000
model:
	$(GO) test -count=1 -timeout 0 -v -run 'TestModel$$' ./decoder -rapid.checks=$(MODELCHECKS)

# lint also reads what only a build tag compiles.
lint:
	$(GO) vet ./...
	$(GO) vet -tags scale ./internal/rig
	$(GO) tool staticcheck ./...
	@unformatted="$$(gofmt -l .)"; if [ -n "$$unformatted" ]; then \
		echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	$(GO) mod tidy -diff
	$(GO) test ./internal/layout

# vuln looks for known vulnerabilities in what the program calls. It needs the
# network, or a copy of the database in GOVULNDB.
vuln:
	.ci/vuln

# fuzz runs every fuzz target for FUZZTIME.
fuzz:
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "fuzz $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s $$pkg; \
		done; \
	done

# demo kills a primary in mid-traffic and proves, row by row, that nothing is
# lost. PG=16, 17 (the default), 18 or all. MODE=inline (the default), sidecar,
# solo or all. AHEAD=1 lets the subscriber get ahead of the standby before the
# kill. KEEP=1 keeps logs and data directories. The program is built and not run
# by "go run", which would hide its exit status.
demo:
	@$(GO) build -trimpath -o bin/demo ./internal/demo
	@PG='$(PG)' MODE='$(MODE)' AHEAD='$(AHEAD)' KEEP='$(KEEP)' bin/demo

# chaos plays ROUNDS rounds in which whatever can break does, on real servers, and
# says of each what it cost the subscribers. SEED is the seed of the first round
# (from the clock), PG=16, 17, 18 or all (the default) the version, JOBS=2 how many
# rounds are played at once, SHORT=1 plays rounds as "make test" does, PLAN=1 prints
# what would be done. A bad round keeps its files and says how to play it again.
ROUNDS ?= 1
chaos:
	@$(GO) build -trimpath -o bin/chaos ./internal/chaos/rounds
	@ROUNDS='$(ROUNDS)' SEED='$(SEED)' PG='$(PG)' JOBS='$(JOBS)' SHORT='$(SHORT)' PLAN='$(PLAN)' bin/chaos

# soak lets a pair of servers work for DURATION, with helper, relay and standby
# restarted now and then, and fails when memory, goroutines, descriptors, temporary
# slots or files of the state directory grow.
DURATION ?= 1h
soak:
	SLOTFERRY_TEST_SOAK='$(DURATION)' $(GO) test -count=1 -v -timeout 0 -run TestSoak ./internal/chaos

# bench measures the relay against HAProxy, all on one core, and writes the
# figures to bin/bench.json. It takes four minutes and wants a quiet machine, and
# root for a network of its own. BENCHFLAGS: see "bin/bench -h".
bench:
	@command -v haproxy >/dev/null || apt-get install -y haproxy
	@$(GO) build -trimpath -o bin/bench ./internal/bench
	@bin/bench $(BENCHFLAGS)
	@$(GO) test ./internal/inspect -run '^$$' -bench Inspect -benchtime 2s | grep '^Benchmark'

# bench-slots measures slots on a standby by slotferry, and on the same load by
# PostgreSQL's own slot sync worker, in less than four minutes; figures go to
# bin/bench-slots.json. SLOTBENCHFLAGS: see "bin/slotbench -h".
bench-slots:
	@$(GO) build -trimpath -o bin/slotbench ./internal/slotbench
	@bin/slotbench $(SLOTBENCHFLAGS)

clean:
	rm -rf bin
	$(GO) clean -testcache
