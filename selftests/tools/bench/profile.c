// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU (TCG): counts the executed instructions by the address of their block, between
 * two marks that insn.c sets around each measurement. For each measurement it writes a line
 * "measurement", then lines of an address and a count, to the file of its argument out=FILE.
 *
 * The declarations are those of version 1 of QEMU's plugin interface, because Debian 12 has no
 * package with qemu-plugin.h.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;

enum {
	QEMU_PLUGIN_INLINE_ADD_U64
};
enum {
	QEMU_PLUGIN_CB_NO_REGS
};

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *to,
					      uint64_t add);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    void (*cb)(unsigned int, void *), int flags,
					    void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

int qemu_plugin_version = 1;
int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv);

/* xchg %r13, %r13 */
static const uint8_t mark_code[] = { 0x4d, 0x87, 0xed };

#define BUCKETS 65536

/* Blocks of code that start at an address; never freed, as translated code adds to them. */
struct block {
	struct block *next;
	uint64_t address;
	uint64_t count;
};

static struct block *blocks[BUCKETS];
static bool counting;
static FILE *out;

static struct block *block_at(uint64_t address)
{
	struct block **bucket = &blocks[(address ^ (address >> 16)) % BUCKETS], *b;

	for (b = *bucket; b; b = b->next)
		if (b->address == address)
			return b;
	b = calloc(1, sizeof(*b));
	if (!b)
		abort();
	b->address = address;
	b->next = *bucket;
	*bucket = b;
	return b;
}

static void on_mark(unsigned int vcpu, void *data)
{
	struct block *b;
	size_t i;

	(void)vcpu;
	(void)data;
	counting = !counting;
	if (!counting)
		fprintf(out, "measurement\n");
	for (i = 0; i < BUCKETS; i++) {
		for (b = blocks[i]; b; b = b->next) {
			if (!counting && b->count)
				fprintf(out, "%016" PRIx64 " %" PRIu64 "\n", b->address, b->count);
			b->count = 0;
		}
	}
	fflush(out);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb), i;

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64,
						 &block_at(qemu_plugin_tb_vaddr(tb))->count, n);
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (qemu_plugin_insn_size(insn) == sizeof(mark_code) &&
		    !memcmp(qemu_plugin_insn_data(insn), mark_code, sizeof(mark_code)))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
}

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	(void)info;
	if (argc != 1 || strncmp(argv[0], "out=", 4))
		return -1;
	out = fopen(argv[0] + 4, "w");
	if (!out)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
