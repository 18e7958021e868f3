# SPDX-License-Identifier: GPL-2.0
#
# krdma_mover: the module (built by the kernel's Kbuild from Kbuild and driver/),
# and the krdma command with its library in userspace/.

# KVER: a kernel release; KDIR: where its headers are. By default the running
# kernel, and where that has no headers here, the newest that has.
ifndef KDIR
ifndef KVER
KVER := $(shell r=$$(uname -r); test -e /lib/modules/$$r/build || \
	r=$$(ls -d /lib/modules/*/build 2>/dev/null | sed 's|/lib/modules/||; s|/build$$||' | \
	sort -V | tail -n 1); echo "$$r")
endif
KDIR := /lib/modules/$(KVER)/build
endif
KRELEASE = $(shell sed -n 's/^.define UTS_RELEASE "\(.*\)"/\1/p' \
	$(KDIR)/include/generated/utsrelease.h 2>/dev/null)
PREFIX ?= /usr/local

MAKEFLAGS += --no-print-directory
KBUILD = $(MAKE) -C $(KDIR) M=$(CURDIR)

all: module samples userspace ## the module, its sample and the krdma command (KDIR= or KVER= choose the kernel)

module: ## driver/krdma_mover.ko and driver/krdma_blk.ko
	@test -n "$(KRELEASE)" || { \
		echo "No kernel headers in '$(KDIR)': try 'make deps', or give KVER= or KDIR=." >&2; \
		exit 1; }
	@echo "krdma_mover.ko for Linux $(KRELEASE), with the headers in $(KDIR)"
	@$(KBUILD) modules

samples: module ## samples/krdma_sample.ko, and a module for the tests
	@for dir in samples selftests/modules; do \
		$(KBUILD)/$$dir KBUILD_EXTRA_SYMBOLS=$(CURDIR)/Module.symvers modules || exit; done

kunit: ## selftests/kunit/krdma_mover_kunit.ko, for a kernel with KUnit (KDIR= or KVER=)
	@grep -q '^CONFIG_KUNIT=[ym]' $(KDIR)/.config || { \
		echo "Linux $(KRELEASE) in '$(KDIR)' has no KUnit: see Documentation/lab.rst" >&2; \
		exit 1; }
	@$(KBUILD)/selftests/kunit modules

userspace: ## userspace/krdma and libkrdma
	@$(MAKE) -C userspace PREFIX=$(PREFIX)

fio-engine: ## userspace/build/libkrdma-fio.so, an ioengine for the installed fio, whose source is fetched
	@selftests/tools/setup build lab
	@$(MAKE) -C userspace fio

install: module userspace ## install everything (DESTDIR=, PREFIX=/usr/local)
	@# No signature without a key, instead of an error that is none.
	@$(KBUILD) $(if $(DESTDIR),INSTALL_MOD_PATH=$(DESTDIR)) \
		$(if $(wildcard $(KDIR)/certs/signing_key.pem),,CONFIG_MODULE_SIG_ALL=) modules_install
	@test -n "$(DESTDIR)" || depmod $(KRELEASE)
	@$(MAKE) -C userspace install DESTDIR=$(DESTDIR) PREFIX=$(PREFIX)
	@# What other modules are built with.
	@mkdir -p $(DESTDIR)$(PREFIX)/share/krdma_mover/$(KRELEASE)
	@cp -r include uapi $(DESTDIR)$(PREFIX)/share/krdma_mover
	@cp Module.symvers $(DESTDIR)$(PREFIX)/share/krdma_mover/$(KRELEASE)

uninstall: ## remove what install has installed, for the same KVER=, DESTDIR= and PREFIX=
	@test -n "$(KRELEASE)" || { \
		echo "No kernel headers in '$(KDIR)': give KVER=, for which the module was installed." >&2; \
		exit 1; }
	@# Where DKMS puts its own is no folder driver.
	@# A kernel that was removed leaves nothing to remove.
	@test ! -d $(DESTDIR)/lib/modules/$(KRELEASE) || { set -x; \
		find $(DESTDIR)/lib/modules/$(KRELEASE) -path '*/driver/krdma_*.ko*' -delete; \
		test -n "$(DESTDIR)" || depmod $(KRELEASE); }
	@$(MAKE) -C userspace uninstall DESTDIR=$(DESTDIR) PREFIX=$(PREFIX)
	@cd $(DESTDIR)$(PREFIX)/share/krdma_mover 2>/dev/null || exit 0; rm -rf include uapi '$(KRELEASE)'; \
		rmdir $(DESTDIR)$(PREFIX)/share/krdma_mover 2>/dev/null || :

deb: ## Debian packages, in build/deb
	@selftests/tools/setup build deb
	@selftests/tools/deb build

test-deb: ## packages: lintian, installed in a copy of this root, built by DKMS, purged (the test services has the rest)
	@selftests/tools/setup build deb
	@selftests/tools/deb test

clean: ## remove what was built
	@-test -z "$(KRELEASE)" || { $(KBUILD) clean; for dir in samples selftests/modules \
		selftests/kunit selftests/tools/bench; do $(KBUILD)/$$dir clean; done; }
	@-$(MAKE) -C userspace clean
	@$(MAKE) -C selftests clean

deps: ## install the Debian packages that building, testing and the lab need
	@selftests/tools/setup build lab check

# The virtual machines boot a kernel of their own choice, so that is built for.
lab-kernel = $$(selftests/tools/vm/lab kernels -k '$(KERNEL)')

ifdef REMOTE
test: ## all tests: unit tests here, the rest in two virtual machines (TESTS="name ...", KERNEL=6.1), or on this machine and another (REMOTE=ssh:HOST)
	@selftests/tools/setup build check
	@$(MAKE) all test-programs
	@selftests/tools/run-hosts '$(REMOTE)' $(TESTS)
else
test:
	@selftests/tools/setup build lab check
	@kver=$(lab-kernel) && $(MAKE) all KVER=$$kver KDIR=/lib/modules/$$kver/build
	@# Without the source of fio its test is skipped.
	-@$(MAKE) -C userspace fio
	@selftests/tools/run-vm --unit -k '$(KERNEL)' $(TESTS)
endif

MATRIX ?= 6.1 6.12 7.2

test-matrix: ## the tests in virtual machines on each of several kernels (MATRIX="6.1 6.12 7.2")
	@selftests/tools/setup build lab check stock
	@$(MAKE) -C userspace PREFIX=$(PREFIX)
	@TESTS='$(TESTS)' selftests/tools/matrix $(MATRIX)

# What the tests in the machines run; for those who run them beside each other.
test-programs: userspace
	@$(MAKE) -s -C selftests

test-debug: ## the tests on a kernel built to find faults, with RoCE and with iWARP (RDMA="rxe siw")
	@selftests/tools/setup build lab check debug
	@$(MAKE) -C userspace PREFIX=$(PREFIX)
	@COVERAGE='$(COVERAGE)' TESTS='$(TESTS)' selftests/tools/matrix $(RDMA:%=debug:%)

RDMA ?= rxe siw

# Where two processors meet in the module.
RACE_ALONE ?= uring ioctl_async placement ends stress
RACE_TESTS ?= uring users message ends placement share message_cli recall bye chaos disk verify

test-race: ## data races: what runs beside each other, on one machine of four processors and two of two (RDMA=, RACE_ALONE=, RACE_TESTS=)
	@selftests/tools/setup build lab check debug
	@$(MAKE) -C userspace PREFIX=$(PREFIX)
	@test -n '$(RACE_ALONE)$(RACE_TESTS)' || { echo "RACE_ALONE or RACE_TESTS: which tests?" >&2; exit 2; }
	@ALONE='$(RACE_ALONE)' TESTS='$(RACE_TESTS)' \
		selftests/tools/matrix $(if $(RACE_ALONE),$(RDMA:%=race:%:1x4)) $(if $(RACE_TESTS),$(RDMA:%=race:%:2x2))

test-uml: ## every fault point, or tests that need one kernel only, in user-mode Linux with KASAN and lockdep, with RoCE and with iWARP (TESTS=, RDMA=, FAULTS=1 of the calls of each)
	@selftests/tools/setup build lab check debug
	@$(MAKE) -C userspace PREFIX=$(PREFIX)
	@PART='$(or $(PART),0/1)' TESTS='$(or $(TESTS),unanswered faults)' selftests/tools/matrix $(RDMA:%=uml:%)

coverage: ## how much of driver/ test-debug runs, by file
	@rm -rf build/coverage
	@$(MAKE) test-debug COVERAGE=build/coverage; status=$$?; \
		selftests/tools/coverage report build/coverage 85 && exit $$status

FUZZ_SECONDS ?= 600

fuzz: ## fuzz the wire decoder here, then the device in machines with the debug kernel (FUZZ_SECONDS=600)
	@selftests/tools/setup build lab check debug
	@$(MAKE) -C selftests/unit fuzz FUZZ_SECONDS=$(FUZZ_SECONDS)
	@$(MAKE) -C userspace PREFIX=$(PREFIX)
	@mkdir -p build/fuzz/found
	@kernel=$$(selftests/tools/kernels debug) && \
		KDIR=$$kernel/build BUILD_DIR=$(CURDIR)/build/fuzz/tree selftests/tools/check build && \
		KRDMA_MODULE=$(CURDIR)/build/fuzz/tree/driver/krdma_mover.ko TIME_FACTOR=5 \
			FUZZ_SECONDS=$(FUZZ_SECONDS) VM_TIMEOUT=$$(($(FUZZ_SECONDS) + 7200)) \
			selftests/tools/run-vm -k $$kernel --out build/fuzz fuzz
	@tar -C build/fuzz/found -xf build/fuzz/found.tar

fuzz-uml: ## fuzz the device in user-mode Linux, which is faster (FUZZ_SECONDS=600)
	@selftests/tools/setup build lab check debug
	@selftests/fuzz/uml $(FUZZ_SECONDS)

fuzz-corpus: ## what `make fuzz` and `make fuzz-uml` have found, as few as will do, to selftests/fuzz/corpus.tar
	@selftests/tools/setup build lab check debug
	@mkdir -p build/fuzz/found build/fuzz-uml/found
	@selftests/fuzz/uml --merge build/fuzz/found build/fuzz-uml/found

# KERNEL: debug, uml or race, as selftests/tools/kernels has them.
stress: SECONDS ?= 3600
stress: ## every pair of operations of the interfaces against each other, with RoCE and with iWARP (SECONDS=3600, KERNEL=debug, RDMA=, SEED=)
	@selftests/tools/setup build lab check debug
	@$(MAKE) -C userspace PREFIX=$(PREFIX)
	@kernel=$$(selftests/tools/kernels $(or $(KERNEL),debug)) && tree=$(CURDIR)/build/stress/tree && \
		rm -rf $$tree && KDIR=$$kernel/build BUILD_DIR=$$tree selftests/tools/check build && \
		export KRDMA_MODULE=$$tree/driver/krdma_mover.ko STRESS_SECONDS=$(SECONDS) && \
		export VM_TIMEOUT=$$(($(SECONDS) + 7200)) && \
		if [ '$(KERNEL)' = uml ]; then machine=--uml; else machine="-n 1 -c 4"; export TIME_FACTOR=5; fi && \
		for rdma in $(RDMA); do \
			selftests/tools/run-vm $$machine -k $$kernel --rdma $$rdma stress || exit; \
		done

soak: ## all tests on all kernels, planted faults, long loops: hours
	@selftests/tools/setup all
	@selftests/tools/soak

demo: ## two virtual machines that move bytes between them
	@selftests/tools/setup build lab
	@kver=$(lab-kernel) && $(MAKE) all KVER=$$kver KDIR=/lib/modules/$$kver/build
	@selftests/tools/vm/demo

# With RNBD, where that has been built.
bench: KERNEL ?= $(shell selftests/tools/kernels extra --built 2>/dev/null)
bench: ## krdma beside perftest, the kernel's verbs, NVMe over RDMA, rsync and others in two virtual machines: ratios as tables, JSON and SVG in Documentation/performance, the rest in build/bench (BENCH=--quick: one short round, all in build/bench; BENCH="disk count": these alone; KERNEL=)
	@selftests/tools/setup build lab
	@kver=$(lab-kernel) && $(MAKE) all bench-modules KVER=$$kver KDIR=/lib/modules/$$kver/build
	@selftests/tools/bench/all -k '$(KERNEL)' $(BENCH)

bench-modules: module
	@$(KBUILD)/selftests/tools/bench KBUILD_EXTRA_SYMBOLS=$(CURDIR)/Module.symvers modules

bench-insn: ## instructions of a 4 KiB operation, by each way in, above the kernel's verbs alone
	@selftests/tools/setup build lab
	@selftests/tools/bench/insn -k '$(KERNEL)' $(INSN)

check: ## static checks: warnings, sparse, checkpatch, kernel-doc, formatting, shell scripts, ... (CHECKS=: some of them)
	@selftests/tools/setup build check
	@selftests/tools/check $(CHECKS)

help: ## this list
	@echo "Targets:"
	@sed -n 's/^\([a-z-]*\):.*## /  \1|/p' $(firstword $(MAKEFILE_LIST)) | \
		awk -F '|' '{ printf "%-15s%s\n", $$1, $$2 }'
	@echo "In virtual machines, without RDMA hardware: selftests/tools/vm/lab --help"

.PHONY: all deb test-deb fio-engine module samples kunit userspace install uninstall clean deps test test-matrix test-programs test-debug \
	test-uml test-race coverage fuzz fuzz-uml fuzz-corpus stress soak demo bench bench-modules bench-insn check help
