# SPDX-License-Identifier: GPL-2.0
#
# What the Makefile of each folder includes. The variables mean what they do in
# tools/testing/selftests/lib.mk of the kernel:
#
#   TEST_PROGS               scripts that are tests
#   TEST_GEN_PROGS           programs that are tests
#   TEST_GEN_PROGS_EXTENDED  programs that tests run
#   TEST_FILES               what tests read
#
# A program is built in its folder from the C file of its name.

selfdir := $(patsubst %/,%,$(dir $(realpath $(filter %lib.mk,$(MAKEFILE_LIST)))))
TOP := $(patsubst %/,%,$(dir $(selfdir)))

KST := $(selfdir)/lib/libkst.a
KST_SOURCES := $(wildcard $(selfdir)/lib/kst*.c)
HEADERS := $(wildcard $(selfdir)/lib/*.h $(TOP)/uapi/linux/*.h)
# The harness of the tests in C: tools/testing/selftests of a kernel's source, 6.10 or later. It
# is taken out of the package (tools/setup check) once.
LINUX_SOURCE := linux-source-6.12
KSELFTEST ?= $(or $(XDG_CACHE_HOME),$(or $(HOME),/root)/.cache)/krdma_mover/$(LINUX_SOURCE)
LIBKRDMA := $(TOP)/userspace/build/libkrdma.a

# Bad pointers, bad sizes and wrapping ranges are what is passed on purpose.
CPPFLAGS += -D_GNU_SOURCE -I$(selfdir)/lib -I$(TOP)/uapi -isystem $(KSELFTEST)
CFLAGS ?= -O2 -g
override CFLAGS := -std=gnu11 -Wall -Wextra -Werror -pthread $(CFLAGS)
LDFLAGS += -Wl,--as-needed

PROGRAMS := $(TEST_GEN_PROGS) $(TEST_GEN_PROGS_EXTENDED)

all: $(PROGRAMS) $(TEST_GEN_FILES)

$(PROGRAMS): %: %.c $(KST) $(HEADERS) | $(KSELFTEST)/kselftest_harness.h
	$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.c %.a,$^) $(LDLIBS) -luring

$(KST): $(KST_SOURCES) $(HEADERS)
	$(MAKE) -C $(@D) $(@F)

$(KSELFTEST)/kselftest_harness.h: tar = /usr/src/$(LINUX_SOURCE).tar.xz
$(KSELFTEST)/kselftest_harness.h:
	@test -e $(tar) || { echo "no $(tar): selftests/tools/setup check, or KSELFTEST=" >&2; exit 1; }
	@mkdir -p $(@D) && tmp=$$(mktemp -d -p $(@D)) && tar -C $$tmp --strip-components=4 --occurrence \
		-xJf $(tar) $(addprefix $(LINUX_SOURCE)/tools/testing/selftests/,kselftest.h $(@F)) && \
		mv $$tmp/kselftest.h $$tmp/$(@F) $(@D) && rmdir $$tmp

$(LIBKRDMA):
	$(MAKE) -C $(TOP)/userspace

# Where the harness is.
kselftest: $(KSELFTEST)/kselftest_harness.h
	@echo $(KSELFTEST)

# The tests of the folder, in order.
list:
	@printf '%s\n' $(TEST_PROGS) $(TEST_GEN_PROGS)

run_tests: all
	@$(selfdir)/run_kselftest.sh -c $(notdir $(CURDIR))

# INSTALL_PATH: where the folders are to be.
install: all
	install -d $(INSTALL_PATH)/$(notdir $(CURDIR))
	cp -r $(wildcard $(TEST_PROGS) $(PROGRAMS) $(TEST_FILES) settings) $(INSTALL_PATH)/$(notdir $(CURDIR))

clean:
	rm -f $(PROGRAMS) $(TEST_GEN_FILES) $(EXTRA_CLEAN)

.PHONY: all kselftest list run_tests install clean
