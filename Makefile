# The interface of this repository. `make` alone lists the targets.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PORT      ?= 6399
IMAGE     ?= emq
FUZZ_TIME ?= 2m

pure    := ./commands/... ./fence/... ./lease/...
sources := $(filter-out %_test.go,$(wildcard $(addsuffix /*.go,module commands fence lease))) \
           $(wildcard module/*.c module/*.h module/default.pgo) module/emq.map go.mod go.sum Makefile

# The version script hides all but the entry points; the linker runs elsewhere, so its path is absolute.
# The C files are optimised as one (-flto): the path of a command goes through several of them. What is jumped to is not
# aligned: the gaps would cost more lines of the instruction cache than they save.
dense   := -fno-align-loops -fno-align-jumps -fno-align-labels
gobuild = CGO_ENABLED=1 CGO_CFLAGS='-O2 -g -flto $(dense)' CGO_LDFLAGS='-O2 -flto -flto-partition=one $(dense)' go build -buildmode=c-shared -trimpath -buildvcs=false \
          -ldflags "-buildid= -X main.build=$$(<build/emq.id) \
                    -extldflags '\"-Wl,--version-script=$(CURDIR)/module/emq.map\"'"

# Opens a command that needs a server: it learns from the environment what to start.
with_server  = server=$$(tools/valkey.sh) && VALKEY_SERVER="$$server" $(with_modules)
with_modules = EMQ_MODULE="$(CURDIR)/build/emq.so" EMQ_MODULE_DEBUG="$(CURDIR)/build/emq-debug.so" \
               EMQ_STUB="$(CURDIR)/build/stub" EMQ_MODULE_ASAN="$(CURDIR)/build/emq-asan.so"

.PHONY: help build build-arm64 run demo test test-unit test-server test-tools test-browser screens test-arm64 matrix releases proof fuzz golden pgo test-clients test-clients-go bench bench-quick bench-peers \
        image image-test deb deb-test install lint clean FORCE

help:
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: build/emq.so build/emq-debug.so build/emq ## build/emq.so (with emq.so.debug, unstripped), emq-debug.so for the tests, and the command build/emq

# The commit that the library is built from, as its load line says it, or $EMQ_BUILD where there is no history. Written
# only when it changes.
build/emq.id: FORCE
	@mkdir -p $(@D)
	@of=(module commands fence lease go.mod go.sum Makefile ':!*_test.go'); \
	id=$${EMQ_BUILD:-$$(git log -1 --abbrev=12 --format=%h -- "$${of[@]}" 2>/dev/null)}; \
	[ -z "$$(git status --porcelain -- "$${of[@]}" 2>/dev/null)" ] || id=$$id-dirty; \
	cmp -s $@ <<<"$${id:-unknown}" || echo "$${id:-unknown}" >$@
FORCE:

# Through a temporary file: a running server has the old one mapped. Valkey refuses a module without the execute bit.
build/emq.so.debug build/emq-debug.so: $(sources) build/emq.id
	$(gobuild) $(if $(findstring emq-debug,$@),-tags emqdebug) -o $@.tmp ./module
	@rm -f $@.h
	@chmod 755 $@.tmp && mv $@.tmp $@

build/emq.so: build/emq.so.debug
	strip -s -o $@.tmp $<
	@chmod 755 $@.tmp && mv $@.tmp $@

# Go knows better than a list here what it is made of.
build/emq: build/emq.id FORCE
	CGO_ENABLED=0 go -C cmd/emq build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.build=$$(<build/emq.id)" -o $(CURDIR)/$@ .

build/arm64/emq.so: $(sources) build/emq.id
	@command -v aarch64-linux-gnu-gcc >/dev/null || { echo 'not installed: gcc-aarch64-linux-gnu' >&2; exit 1; }
	@mkdir -p $(@D)
	GOARCH=arm64 CC=aarch64-linux-gnu-gcc $(gobuild) -o $@.tmp ./module
	@rm -f $@.h
	aarch64-linux-gnu-strip -s $@.tmp
	@chmod 755 $@.tmp && mv $@.tmp $@

build-arm64: build/arm64/emq.so ## build/arm64/emq.so, with Debian's cross compiler

# A host of our own and the module for it, both under ASan and UBSan, which a packaged server can't be run under. A memcmp
# of few bytes that gcc makes a comparison of its own is not looked at. The module is the debug build, so that a panic runs
# under them too.
sanitize := -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -fno-builtin-memcmp
build/stub: $(wildcard test/sanitizers/server/*) module/abi.h Makefile
	@mkdir -p $(@D)
	gcc -std=gnu11 -Wall -Wextra -Werror $(sanitize) $(filter %.c,$^) -o $@ -ldl -lm

build/emq-asan.so: $(sources)
	CGO_ENABLED=1 CGO_CFLAGS='$(filter-out -fsanitize=address%,$(sanitize)) -fsanitize=undefined' CGO_LDFLAGS=-fsanitize=undefined \
	go build -asan -tags emqdebug -buildmode=c-shared -trimpath -buildvcs=false -o $@.tmp ./module
	@rm -f $@.h
	@chmod 755 $@.tmp && mv $@.tmp $@

run: build/emq.so ## a server with the module on 127.0.0.1, in the foreground; PORT=6399
	@exec tools/run.sh "$(PORT)"

demo: build/emq.so build/emq ## a private server and 10,000 jobs through their whole life
	@$(with_server) exec build/emq demo $(ARGS)

test: test-unit test-server test-tools test-clients-go ## vet, unit tests, and every suite against a real server

test-unit: ## vet, the tests of the pure packages, also under the race detector, of the pages and the bench
	go vet ./... && go -C bench vet ./...
	CGO_ENABLED=0 go test -count=1 $(pure) ./docs
	CGO_ENABLED=0 go -C bench test -count=1 ./...
	CGO_ENABLED=1 go test -count=1 -race $(pure)
	@for module in $(clients_go) $(tools_go); do \
		echo "$$module"; go -C $$module vet ./... && CGO_ENABLED=0 go -C $$module test -count=1 ./... || exit; \
	done

test-server: build build/stub build/emq-asan.so ## the suites against a real server; ARGS='-run Claim -v' for a part
	@$(with_server) go test -count=1 -timeout 40m ./test/... ./clients/conformance $(ARGS)

# Modules of their own, as those of clients_go.
tools_go := operator cmd/emq
test-tools: build ## the command emq, what it stands on, its alerts and dashboard; promtool is fetched if it can be; ARGS='-run Work'
	@promtool=$$(tools/promtool.sh) || echo 'without promtool: its test is skipped'; \
	$(with_server) PROMTOOL="$$promtool"; export VALKEY_SERVER EMQ_MODULE PROMTOOL; for module in $(tools_go); do \
		CGO_ENABLED=1 go -C $$module test -count=1 -race -timeout 20m ./... $(ARGS) || exit; \
	done

test-browser: build ## the page in a real browser, which is fetched if it can be; what it looks like is in build/screens
	@chromium=$$(tools/browser.sh) || echo 'without a browser: its tests are skipped'; \
	$(with_server) CHROMIUM="$$chromium" go -C test/browser test -count=1 -timeout 20m ./... $(ARGS)

screens: build ## docs/screens anew, the pictures of the page that README shows
	@chromium=$$(tools/browser.sh) && $(with_server) CHROMIUM="$$chromium" go -C test/browser test -count=1 -run Readme -update

test-arm64: build/arm64/emq.so ## the tests of the pure packages, and the golden file against an arm64 server, under qemu
	@tools/test-arm64.sh

matrix: build build/stub build/emq-asan.so ## the suites on Valkey 8.0, 8.1 and 9.x, and a table; ARGS='-run Claim' for a part
	@$(with_modules) tools/matrix.sh $(ARGS)

# What the module does in another way on a newer server, or the server by itself: how queues become known, counters,
# settings, the stream of replicas and AOF, and each reply and effect.
differing := ^Test(Queues|ClientsStay|Counters|Golden|Effects|StreamOfALife|Replica|AppendOnly|Databases|ImportMode|SetsBefore|Moving)
releases: build build/stub build/emq-asan.so ## of the suites what differs between releases, on Valkey 8.1 and 9.x
	@$(with_modules) EMQ_RELEASES='8.1 9' tools/matrix.sh -run '$(differing)'

# test/faults writes the table, a head and a row for each fault.
proof: test-unit build build/stub build/emq-asan.so ## all suites in their long forms, fuzzing, and what each fault cost; EMQ_SEED=n for the same dice
	@export EMQ_PROOF=1 EMQ_SEED="$${EMQ_SEED:-$$(date +%s)}" EMQ_TABLE="$(CURDIR)/build/proof.table"; \
	echo "EMQ_SEED=$$EMQ_SEED"; : >"$$EMQ_TABLE"; \
	$(with_server) go test -count=1 -p 1 -timeout 40m ./test/... ./clients/conformance $(ARGS); status=$$?; \
	$(MAKE) --no-print-directory fuzz || status=$$?; \
	awk -F '|' '{ printf "%-38s", $$1; for (i = 2; i <= NF; i++) printf " %10s", $$i; print "" }' "$$EMQ_TABLE"; exit $$status

fuzz: ## each fuzz target of the pure packages; FUZZ_TIME=1h for longer than two minutes each
	@listed=$$(go test -list '^Fuzz' $(pure)) || { echo "$$listed"; exit 1; }; \
	awk '/^Fuzz/ { target[++n] = $$1 } /^ok/ { for (; n; n--) print $$2, target[n] }' <<<"$$listed" | \
	while read -r package target; do \
		echo "$$package $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime "$(FUZZ_TIME)" "$$package" || exit; \
	done

# EMQ_CLIENTS=all: a client that is not here is a failure.
test-clients: build ## other people's clients, and ours on them, of which `make test` tries those that are here; as root, since it installs them
	@tools/clients.sh
	@$(with_server) EMQ_CLIENTS=all go test -count=1 -timeout 40m ./test/clients ./clients/conformance $(ARGS)

# Modules of their own. Without a server, as in test-unit, those of their tests that need one are skipped.
clients_go := clients/go clients/go/emqredis clients/go/emqprom clients/go/emqotel
test-clients-go: build ## the Go package against a real server, under the race detector; ARGS='-run Stop -v' for a part
	@$(with_server); export VALKEY_SERVER EMQ_MODULE; for module in $(clients_go); do \
		CGO_ENABLED=1 go -C $$module test -count=1 -race -timeout 10m ./... $(ARGS) || exit; \
	done

# The build uses the profile as it lies there; -trimpath keeps it free of paths.
pgo: ## module/default.pgo anew, the profile of decisions that the build is optimised by
	CGO_ENABLED=0 go test -trimpath ./commands -run '^$$' -bench Decide -benchtime 10s -cpuprofile "$(CURDIR)/module/default.pgo" -o build/commands.tmp

golden: build ## write the golden file anew from what the server answers
	@$(with_server) go test -count=1 ./test/ -run Golden -update

bench: build ## the verbs against the Lua scripts and a floor in C; ARGS='-axis base -pairs 10' for a part
	@$(with_server) exec go -C bench run . $(ARGS)

bench-quick: build/emq.so ## the same in two minutes: fewer pairs, no backlog of a million
	@$(with_server) exec go -C bench run . -quick $(ARGS)

bench-peers: build/emq.so bench/peers/bullmq/node_modules ## EMQ beside asynq and BullMQ, on one server
	@$(with_server) exec go -C bench run ./peers $(ARGS)

# Without node the comparison is with asynq alone.
bench/peers/bullmq/node_modules: bench/peers/bullmq/package-lock.json
	@if command -v npm >/dev/null; then cd $(@D) && npm ci --ignore-scripts --no-audit --no-fund --silent && touch node_modules; fi

# The module is for this machine's Valkey; the configuration that loads it is the operator's.
DESTDIR ?=
PREFIX  ?= /usr/local
# Where root has no Go, what `make build` made is installed.
install: $(if $(shell command -v go),build/emq.so build/emq) ## the module, the command, its man pages and completions; DESTDIR=, PREFIX=/usr/local
	install -D -m 0755 build/emq.so "$(DESTDIR)$(PREFIX)/lib/valkey/emq.so"
	tools/install-command.sh build/emq build/emq "$(DESTDIR)$(PREFIX)"

image: ## the image, by docker, podman or buildah; IMAGE=emq, ARGS='--build-arg BASE_IMAGE=...'
	@tools/image.sh "$(IMAGE)" $(ARGS)

image-test: build ## the image on stand-ins of its bases, and the suites against the server in it; as root
	@tools/image-test.sh $(ARGS)

deb: build/emq.so build/emq ## a Debian package of the module and the command, build/valkey-emq_*.deb
	@tools/deb.sh build/emq.so build/emq

deb-test: deb ## install it beside Debian's Valkey, use it, remove it; as root
	@tools/deb-test.sh

lint: build ## formatting, vet, staticcheck, the rules of each package, C warnings, scripts
	@tools/lint.sh

clean: ## remove what was built and the data of `make run`; fetched servers and the stand-ins stay
	rm -rf build/emq build/*.so build/*.so.debug build/*.h build/*.tmp build/*.deb build/emq.id build/stub build/proof.table build/run \
	       build/arm64 build/matrix build/clients build/screens
