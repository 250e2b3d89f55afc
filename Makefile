# Tandem's everyday commands. `make` alone lists them. Each installs the tools it needs where it is root on
# Debian or Ubuntu, and says what is missing elsewhere (scripts/ensure-tools.sh).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo build measure programs test lint models bench fuzz mutants lab splitting mctls interop clients soak survive tunnels pq visits cost remedies deb wheel clean

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
TANDEM := $(TARGET)/release/tandem
LAB := $(TARGET)/release/tandem-lab
# What is installed.
PROGRAMS := --package tandem --package tandem-keytap --package tandem-key-relay --package tandem-keyserver-io --package tandem-openssl-provider --package tandem-mc
FIRST := the first build takes some eight minutes on two idle cores
# Off in the program by default, tested all the same.
FEATURES := --features tandem/kademlia,tandem/shared-store
ENSURE := scripts/ensure-tools.sh
TOOLS := $(or $(TANDEM_TOOLS),$(HOME)/.cache/tandem/tools)/bin
DENY := $(TOOLS)/cargo-deny
PYTHON_TOOLS := $(TOOLS:%/bin=%/python/bin)
IS_ROOT := $(filter 0,$(shell id -u))
# Property tests try the same inputs in each run, so that a run can be repeated; another seed tries others.
export PROPTEST_RNG_SEED ?= 1
# Tests that cannot run in full say so in this file (crates/base/tandem-testkit).
export TANDEM_SKIPPED ?= $(abspath $(TARGET))/skipped-tests

## help: this list
help:
	@echo 'Tandem makes TLS cheap on links where bytes are expensive. Targets:'
	@sed -n 's/^## \([a-z]*\): \(.*\)/  make \1 \t\2/p' $(MAKEFILE_LIST) | expand -t 20

## demo: two proxies, an emulated satellite link, a real nginx and a real curl; prints what was saved (root)
demo:
	@$(ENSURE) rust build lab
	@[ -e $(TARGET)/quick/tandem ] || echo 'make: the first build takes some four minutes on two idle cores'
	$(CARGO) build --locked --profile quick --package tandem --package tandem-keytap --package tandem-lab
	$(TARGET)/quick/tandem-lab demo

## build: target/release/tandem, and beside it the programs and libraries that go into the package with it
build:
	@$(ENSURE) rust build
	@[ -e $(TANDEM) ] || echo 'make: $(FIRST)'
	$(CARGO) build --locked --release $(PROGRAMS)
	@scripts/program-size.sh $(TANDEM)

## measure: target/release/tandem-measure, which `tandem measure` starts (docs/measuring.md)
measure:
	@$(ENSURE) rust build
	$(CARGO) build --locked --release --package tandem-measure-io

# What the lab needs: itself, and what is installed. Built in one run, so that cargo builds nothing twice.
programs:
	@$(ENSURE) rust build
	@[ -e $(TANDEM) ] || echo 'make: $(FIRST)'
	$(CARGO) build --locked --release $(PROGRAMS) --package tandem-lab

## test: every check and every test; those in network namespaces need root
test: lint
	@$(if $(IS_ROOT),$(ENSURE) lab package dns page visits interop cost fleet udp openssl icap,:)
	@$(if $(IS_ROOT),$(ENSURE) python || :,:)
	@mkdir -p $(dir $(TANDEM_SKIPPED)) && : >$(TANDEM_SKIPPED)
	status=0; $(CARGO) xtask test --locked --workspace $(FEATURES) || status=$$?; scripts/models.sh --where-installed || status=1; scripts/list-skipped.sh $(TANDEM_SKIPPED); exit $$status

## lint: format, clippy, documentation, layers and the other house rules, licences and sources of dependencies
lint:
	@$(ENSURE) rust build deny
	$(CARGO) fmt --all --check
	$(CARGO) xtask all
	$(DENY) --log-level error --locked check bans licenses sources
	$(CARGO) clippy --locked --workspace --all-targets $(FEATURES) -- -D warnings
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --locked --quiet --workspace --no-deps

## models: Verifpal looks for attacks in the models of the protocols, and has to find those in their twins (a minute)
models:
	@$(ENSURE) models
	scripts/models.sh

## bench: how fast the engine and the store are, and bulk traffic through the queue (the last: root)
bench:
	@$(ENSURE) rust build $(if $(IS_ROOT),lab)
	$(CARGO) bench --locked --workspace --bench '*'

## fuzz: searches for inputs that break a parser or an engine; FUZZ_SECONDS for each, default 1200: about a day in all
fuzz:
	@$(ENSURE) rust fuzz
	scripts/fuzz.sh $(TARGETS)

## mutants: changes each changed line in small ways; does a test notice? BASE=commit, default origin/main or HEAD~
mutants:
	@$(ENSURE) rust mutants
	scripts/mutants.sh $(BASE)

## lab: bench and full experiments into docs/results (root; about an hour)
lab: programs
	@$(ENSURE) lab
	$(CARGO) build --locked --release --package tandem-lab --examples
	$(CARGO) bench --locked --package tandem-engine --package tandem-packet --package tandem-packet-io --package tandem-store-sqlite --package tandem-tunnel-io --package tandem-split --bench '*' | tee /dev/stderr | grep '^{' >docs/results/bench.jsonl
	$(LAB) run experiments/{fast,sizes,bars,thesis,modern,misses,cases,clients,peers}.toml --out docs/results
	$(LAB) profile --out docs/results
	$(LAB) split --out docs/results
	$(LAB) split-sim --out docs/results
	$(LAB) report docs/results

## splitting: the evaluation of SSL splitting alone, the simulation that it calibrates, and the report, into docs/results (root; some twenty minutes)
splitting: programs
	@$(ENSURE) lab
	$(LAB) split --out docs/results
	$(LAB) split-sim --out docs/results
	$(LAB) report docs/results

## mctls: multi-context TLS beside split TLS and end-to-end TLS, and the report, into docs/results (root; an idle machine; a quarter of an hour)
mctls:
	@$(ENSURE) rust build lab
	$(CARGO) build --locked --release --package tandem-lab
	$(LAB) mctls --out docs/results
	$(LAB) report docs/results

## interop: every TLS client, browsers too, against every server through the proxies, with consent too, into docs/results/interop.md (root; twenty minutes)
interop: programs
	@$(ENSURE) lab interop browsers
	$(CARGO) build --locked --release --package tandem-lab --example rustls-client
	$(LAB) interop --out docs/results

## clients: every client program at a split site, through honest and dishonest volunteers, into docs/results/split-clients.md (some minutes)
clients: programs
	@$(ENSURE) browsers
	$(LAB) split-clients --out docs/results

## soak: 100,000 handshakes over a harmful link while the proxies are killed, three times, into docs/results (root; an hour)
soak: programs
	@$(ENSURE) lab interop
	$(CARGO) build --locked --release --package tandem-lab --example rustls-client
	$(LAB) soak --out docs/results
	$(LAB) soak --tunnel --out docs/results/tunnel
	$(LAB) soak --consent --out docs/results/tunnel

## survive: programs with their stock time-outs over slow links, plain and with proxies, into docs/results/tunnel/survive.md (root; ten minutes)
survive: programs
	@$(ENSURE) lab interop
	$(LAB) survive --out docs/results/tunnel

## tunnels: tunnel mode, awake and after a rest, TLS 1.3 too, and other tunnels beside it, into docs/results/tunnel (root; half an hour)
tunnels: programs
	@$(ENSURE) lab tunnels
	PATH="$$PATH:$(TOOLS)" $(LAB) run experiments/{tunnel,rest,tunnels,tls13}.toml --out docs/results/tunnel

## pq: post-quantum TLS 1.3 through the tunnel, into docs/results/tunnel (root; ten minutes, and once ten more to build OpenSSL 3.5)
pq: programs
	@$(ENSURE) lab openssl
	PATH="$$PATH:$(TOOLS)" $(LAB) run experiments/post-quantum.toml --out docs/results/tunnel

## visits: what whole visits and days cost, by example tariffs, into docs/results/tunnel/visits.md (root; ten minutes)
visits: programs
	@$(ENSURE) lab visits
	$(LAB) visits --tariff experiments/tariffs/by-byte.toml,experiments/tariffs/by-minute.toml,experiments/tariffs/long-sessions.toml --out docs/results/tunnel

## cost: what TLS costs at real servers, into docs/results/cost.md (an idle machine; some twelve minutes)
cost:
	@$(ENSURE) rust build cost
	$(CARGO) build --locked --release --package tandem-lab --package tandem-cost-lab --package tandem-cost-tap --package tandem-measure-io --lib --bins --example hyper-server
	$(LAB) cost --out docs/results

## remedies: cached certificates and a key exchange in the first flight, tried, into docs/results/remedies.md (root; an hour)
remedies: programs
	@$(ENSURE) lab
	$(CARGO) build --locked --release --package tls12-experiment-io
	scripts/remedies.py --programs $(TARGET)/release --out docs/results

## deb: the Debian package, out/tandem_VERSION_ARCH.deb
deb:
	@$(ENSURE) rust build package
	@[ -e $(TANDEM) ] || echo 'make deb: $(FIRST)'
	$(CARGO) build --locked --release $(PROGRAMS)
	@scripts/program-size.sh $(TANDEM)
	scripts/make-deb.sh $(TANDEM) out

## wheel: multi-context TLS for Python, out/mctls-VERSION-cp39-abi3-PLATFORM.whl (extras/python)
wheel:
	@$(ENSURE) rust build python
	@[ -e $(TARGET)/python/release ] || echo 'make wheel: the first build takes some five minutes on two cores'
	CARGO_TARGET_DIR=$(abspath $(TARGET))/python $(PYTHON_TOOLS)/maturin build --locked --release --manifest-path extras/python/Cargo.toml --out out

## clean: what was built
clean:
	$(CARGO) clean
