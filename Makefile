# Sonde. `make help` lists the targets; MODE=release|debug|tsan chooses the build, V=1 shows commands.
MODE ?= release
B := build/$(MODE)
PREFIX ?= /usr/local
CC ?= gcc
CLANG ?= $(firstword $(shell command -v clang-14 clang 2>/dev/null) clang)
BPFTOOL ?= $(firstword $(wildcard /usr/sbin/bpftool) bpftool)
VERSION := $(shell cat VERSION)

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-8s%s\n' '$(1)' '$(2)'
endif

# Everything that reads or writes generated goals first needs the packages; other goals do not.
PKGS := libbpf libelf libdw liblzma libseccomp libcap libmicrohttpd gnutls libcrypt libcurl libcares libdeflate \
	zlib jansson libprotobuf-c yaml-0.1 libpcre2-8 libzstd libxxhash nettle expat
PKG_CFLAGS = $(eval PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null))$(PKG_CFLAGS)
LDLIBS_BASE = -lxxhash -lnettle -lpcre2-8 -lseccomp -lcap
LDLIBS_NET = -lyaml -lmicrohttpd -lgnutls -lcrypt -lcares -ldeflate -lz -ljansson
LDLIBS_EXPORTER = -lbpf -ldw -lelf -liberty -llzma -lzstd
LDLIBS_SCRAPER = -lzstd -lprotobuf-c -lexpat

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings \
	-Wcast-qual -Wundef -Wvla -Wformat=2 -Wimplicit-fallthrough -Wnull-dereference -Wredundant-decls -fno-common
ifdef CI
WARN += -Werror
endif
CFLAGS_release := -O2 -g -fno-omit-frame-pointer -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE
LDFLAGS_release := -pie -Wl,-z,relro,-z,now
CFLAGS_debug := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
LDFLAGS_debug := -fsanitize=address,undefined
# Fences of the walker, whose other side is in the kernel, mean nothing to it.
CFLAGS_tsan := -O1 -g -fno-omit-frame-pointer -fsanitize=thread -Wno-tsan
LDFLAGS_tsan := -fsanitize=thread
ALL_CFLAGS = -std=gnu11 $(WARN) $(CFLAGS_$(MODE)) -I. -I$(B) -D_GNU_SOURCE $(PKG_CFLAGS) $(CFLAGS)
# A library is loaded where something of it is used; gcc does so by itself, but not with sanitizers.
ALL_LDFLAGS = -Wl,--as-needed $(LDFLAGS_$(MODE)) $(LDFLAGS) -pthread
LDLIBS_ALL = $(LDLIBS_EXPORTER) $(LDLIBS_SCRAPER) $(LDLIBS_NET) $(LDLIBS_BASE) -lpthread -lm

obj = $(patsubst %.c,$(B)/%.o,$(1))
PROTO := $(wildcard proto/*.proto)
PROTO_C := $(PROTO:%.proto=$(B)/%.pb-c.c)
LIB_SRC := $(wildcard lib/*/*.c lib/*/*/*.c)
EXPORTER_SRC := $(filter-out exporter/main.c,$(wildcard exporter/*.c exporter/*/*.c exporter/*/*/*.c))
SCRAPER_SRC := $(filter-out scraper/main.c,$(wildcard scraper/*.c scraper/*/*.c scraper/*/*/*.c))
CLI_SRC := $(wildcard cli/*.c)
BPF_SRC := $(wildcard bpf/*/*.bpf.c)
UNIT_SRC := $(wildcard tests/unit/test_*.c)
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
BENCH_SRC := $(wildcard tests/bench/bench_*.c)
HELPER_SRC := $(wildcard tests/e2e/*.c)
# Programs of tests that link our archives.
KERNEL_SRC := $(filter-out %.bpf.c,$(wildcard tests/bpf/*.c tests/tools/*.c))
LIBSONDE := $(B)/libsonde.a
LIBEXPORTER := $(B)/libexporter.a
LIBSCRAPER := $(B)/libscraper.a
ARCHIVES := $(LIBEXPORTER) $(LIBSCRAPER) $(LIBSONDE)
PROGRAMS := $(if $(wildcard exporter/main.c),$(B)/sonde-exporter) $(if $(wildcard scraper/main.c),$(B)/sonde-scraper) \
	$(if $(wildcard cli/main.c),$(B)/sonde)
UNIT := $(UNIT_SRC:%.c=$(B)/%)
FUZZ := $(FUZZ_SRC:tests/fuzz/%.c=build/fuzz/bin/%)
BENCH := $(BENCH_SRC:%.c=$(B)/%)
HELPERS := $(HELPER_SRC:%.c=$(B)/%)
KERNEL := $(KERNEL_SRC:%.c=$(B)/%)

.DELETE_ON_ERROR:
.SECONDARY: $(PROTO_C)
.SUFFIXES:
.PHONY: all run test test-crash test-fuzz check bench deps fmt compdb help install clean unit fuzz FORCE

all: $(PROGRAMS) ## build the three programs (default)

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

deps: ## install missing Debian and npm packages; silent when nothing is missing
	@.ci/deps

# Goals that build begin with as many jobs as there are CPUs, where none were asked for.
BUILD = $(MAKE) --no-print-directory $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

run: ## install what building needs, build, start exporter and scraper on this machine, print their URLs
	@.ci/deps build
	@$(BUILD) all
	@.ci/run-local $(B)

KINDS ?= unit fuzz e2e
test: deps ## install what is missing, build, run every test (KINDS='unit e2e': those only)
	@$(BUILD) all unit helpers $(filter fuzz,$(KINDS))
	@tests/run $(B) $(KINDS:%=--%)

# The long form of the store's crash tests (`make test` has a short one); SEED=n repeats one round of the simulated crashes.
CRASH := $(filter $(B)/tests/unit/test_store_%,$(UNIT))
test-crash: $(CRASH) ## crashes of the store: simulated and real ones, thousands of rounds
	@tests/crash/run $(B) $(SEED)

FUZZ_SECONDS ?= 60
ONLY ?=
test-fuzz: deps ## every fuzz target, those of the web interface too, for a minute (FUZZ_SECONDS=n, ONLY=part of a name), from chance
	@$(BUILD) fuzz
	@tests/run $(B) --fuzz --fuzz-seconds $(FUZZ_SECONDS) --fuzz-seed 0 --only '$(ONLY)'

unit: $(UNIT)
fuzz: $(ARCHIVES)
	+@MAKE='$(MAKE)' CLANG='$(CLANG)' .ci/fuzz-build $(ARCHIVES)
.PHONY: fuzz-programs
fuzz-programs: $(FUZZ)
.PHONY: helpers
helpers: $(HELPERS) $(KERNEL) $(B)/tests/bpf/probe.all.o

bench: deps ## run the benchmarks beside their peers
	@$(BUILD) MODE=release all build/release/.bench
	@tests/bench/run build/release
.PHONY: $(B)/.bench
$(B)/.bench: $(BENCH) helpers

check: deps ## layers, confinement, symbols, format, sizes, docs, arm64
	@$(BUILD) all
	@.ci/check $(B)

fmt: ## format the C files
	$(Q)clang-format-14 -i $(shell git ls-files '*.c' '*.h')

compdb: ## write compile_commands.json
	$(Q)$(MAKE) --no-print-directory -Bnk V=1 MODE=$(MODE) all unit | .ci/compdb >compile_commands.json

# Units name the programs where they were installed; a configuration that is there stays.
SYSTEMD := configs/systemd
SHARE = $(DESTDIR)$(PREFIX)/share
install: all $(B)/man/.made ## install programs, man pages, units and examples below $(DESTDIR)$(PREFIX)
	$(Q)install -d $(DESTDIR)$(PREFIX)/bin $(SHARE)/man/man1 $(SHARE)/man/man8 $(SHARE)/doc/sonde/examples \
		$(addprefix $(DESTDIR)$(PREFIX)/lib/,systemd/system sysusers.d tmpfiles.d) $(DESTDIR)/etc/default $(DESTDIR)/etc/sonde
	$(Q)install -m 755 $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin
	$(Q)install -m 644 $(B)/man/*.1 $(SHARE)/man/man1
	$(Q)install -m 644 $(B)/man/*.8 $(SHARE)/man/man8
	$(Q)for d in exporter scraper; do \
		sed 's,/usr/bin/sonde,$(PREFIX)/bin/sonde,' $(SYSTEMD)/sonde-$$d.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/sonde-$$d.service && \
		install -m 644 $(SYSTEMD)/sonde-$$d.sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/sonde-$$d.conf && \
		install -m 644 $(SYSTEMD)/sonde-$$d.tmpfiles.conf $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/sonde-$$d.conf && \
		{ [ -e $(DESTDIR)/etc/default/sonde-$$d ] || install -m 644 $(SYSTEMD)/sonde-$$d.default $(DESTDIR)/etc/default/sonde-$$d; } || exit 1; \
	done
	$(Q)[ -e $(DESTDIR)/etc/sonde/sonde.yml ] || install -m 644 configs/sonde.yml $(DESTDIR)/etc/sonde
	$(Q)install -m 644 $(SYSTEMD)/without-admin.conf $(SYSTEMD)/sonde.sysctl.conf configs/scraper/*.yml $(SHARE)/doc/sonde/examples

.PHONY: man
man: $(B)/man/.made ## make the man pages from --help
$(B)/man/.made: $(PROGRAMS) packaging/man packaging/man.awk VERSION
	$(call say,MAN,$(@D))
	$(Q)rm -rf $(@D) && packaging/man $(B) $(@D) && touch $@

.PHONY: deb
deb: all $(B)/man/.made ## make the Debian packages in build/deb
	$(call say,DEB,build/deb)
	$(Q)packaging/deb $(B) build/deb && ls build/deb/*_$(VERSION)_*.deb

clean: ## remove build/
	rm -rf build

# A change of flags rebuilds everything.
$(B)/flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(ALL_CFLAGS) $(VERSION)' | cmp -s - $@ || echo '$(CC) $(ALL_CFLAGS) $(VERSION)' >$@

# A change of commit rebuilds one object.
REVISION := $(shell git describe --always --dirty --exclude '*' 2>/dev/null)
$(B)/revision: FORCE
	@mkdir -p $(@D); echo '$(REVISION)' | cmp -s - $@ || echo '$(REVISION)' >$@
$(B)/lib/base/version.o: $(B)/revision
$(B)/lib/base/version.o: private CFLAGS += -DSONDE_REVISION='"$(REVISION)"'

$(B)/%.o: %.c $(B)/flags | $(PROTO_C)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -DSONDE_VERSION='"$(VERSION)"' -MMD -MP -c -o $@ $<

$(B)/proto/%.pb-c.c: proto/%.proto
	$(call say,PROTOC,$<)
	@mkdir -p $(@D)
	$(Q)protoc-c --proto_path=proto --c_out=$(B)/proto $<

$(B)/proto/%.pb-c.o: $(B)/proto/%.pb-c.c $(B)/flags | $(PROTO_C)
	$(Q)$(CC) $(filter-out -W%,$(ALL_CFLAGS)) -c -o $@ $<

$(B)/%.bpf.o: %.bpf.c
	$(call say,BPF,$<)
	@mkdir -p $(@D)
	$(Q)$(CLANG) -target bpf -D__TARGET_ARCH_x86 -O2 -g -Wall -Wextra -mcpu=v3 -I. -MMD -MP -c -o $@ $<

$(B)/bpf/sonde.skel.h: $(BPF_SRC:%.c=$(B)/%.o)
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen object $(@:.skel.h=.bpf.all.o) $^
	$(Q)$(BPFTOOL) gen skeleton $(@:.skel.h=.bpf.all.o) name sonde_bpf >$@

# What a test of attaching to files loads in place of it.
$(B)/tests/bpf/probe.all.o: $(filter $(B)/bpf/core/%,$(BPF_SRC:%.c=$(B)/%.o)) $(B)/tests/bpf/probe.bpf.o
	$(Q)$(BPFTOOL) gen object $@ $^

# The web interface and the viewer of pages, bundled once for all modes, embedded as C.
UI_SRC := $(wildcard ui/*.json ui/*.mjs ui/src/* ui/src/*/*)
build/npm/ui/.installed: ui/package.json ui/package-lock.json
	$(call say,NPM,ui)
	$(Q).ci/npm-install ui && touch $@

build/ui/assets.c build/ui/viewer.c: $(UI_SRC) build/npm/ui/.installed
	$(call say,UI,$@)
	@mkdir -p $(@D)
	$(Q)node ui/build.mjs build/npm/ui/node_modules $@

$(B)/ui/%.o: build/ui/%.c $(B)/flags
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

# Sources that include the skeleton (exporter/keeper only) need it before their first compile.
$(call obj,$(wildcard exporter/keeper/*.c)): | $(B)/bpf/sonde.skel.h

$(LIBSONDE): $(call obj,$(LIB_SRC)) $(B)/ui/viewer.o
$(LIBEXPORTER): $(call obj,$(EXPORTER_SRC))
$(LIBSCRAPER): $(call obj,$(SCRAPER_SRC)) $(PROTO_C:.c=.o) $(B)/ui/assets.o
$(ARCHIVES):
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcsT $@ $(filter %.o,$^)

$(B)/sonde-exporter: $(B)/exporter/main.o $(LIBEXPORTER) $(LIBSONDE)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS_EXPORTER) $(LDLIBS_NET) $(LDLIBS_BASE) -lm

$(B)/sonde-scraper: $(B)/scraper/main.o $(LIBSCRAPER) $(LIBSONDE)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS_SCRAPER) $(LDLIBS_NET) $(LDLIBS_BASE) -lm

$(B)/sonde: $(call obj,$(CLI_SRC)) $(ARCHIVES)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS_ALL)

$(UNIT) $(BENCH) $(KERNEL): $(B)/%: $(B)/%.o $(ARCHIVES)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $< $(ARCHIVES) -lcmocka $(LDLIBS_ALL)

$(HELPERS): $(B)/%: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) -O2 -fno-omit-frame-pointer -g -o $@ $< -pthread

# Fuzz targets link what they need of our sources (.ci/fuzz-build), with libFuzzer's coverage. What the undefined-behaviour sanitizer checks at
# each access to memory is left out: it doubles the time to compile, and the address sanitizer finds what it finds.
CFLAGS_fuzz := -O1 -gline-tables-only -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link \
	-fno-sanitize=null,alignment,object-size,pointer-overflow -fno-sanitize-recover=undefined
LDFLAGS_fuzz := -fsanitize=address,undefined,fuzzer
build/fuzz/needed.a: $(shell cat build/fuzz/needed 2>/dev/null)
	$(Q)rm -f $@ && ar rcsT $@ $^
build/fuzz/bin/%: build/fuzz/tests/fuzz/%.o build/fuzz/needed.a
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LDLIBS_ALL)

-include $(shell find $(B) -name '*.d' 2>/dev/null)
