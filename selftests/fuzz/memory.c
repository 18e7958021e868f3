// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that calls get, from which the kernel reads and to which it writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#define ARENA_PAGES 64
#define ARENA_BYTES (ARENA_PAGES * KST_PAGE)
/* More than a LIST or SUBMIT writes, or reads, behind the place where it begins. */
#define GUARD_BYTES (16UL << 20)
#define AREA_BYTES  (8 * KST_PAGE)

static unsigned char *arena, *read_only;
static bool arena_changed;
struct area *areas[2];
unsigned char *fixed;
int zero_fd, event_fd, plain_memfd, sealed_memfd, write_sealed_memfd;

unsigned char *guarded(size_t bytes)
{
	unsigned char *mem =
		kst_map(bytes + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);

	mem += GUARD_BYTES;
	if (mprotect(mem, bytes, PROT_READ | PROT_WRITE))
		kst_bail("mprotect: %s", strerror(errno));
	return mem;
}

__u64 any_pointer(void)
{
	uint8_t which = byte();

	if (which < 224)
		return (uintptr_t)arena + which % ARENA_PAGES * KST_PAGE +
		       (which & 64 ? byte() * 16 : 0);
	switch (which % 8) {
	case 0:
		return 0;
	case 1:
		return byte();
	case 2:
		return (uintptr_t)read_only + byte();
	case 3:
		return (uintptr_t)arena - byte();
	case 4:
		return (uintptr_t)arena + ARENA_BYTES - byte();
	case 5:
		return ~0ULL - byte() * 32;
	case 6:
		return 0xffff888000000000ULL + word();
	default:
		return (uintptr_t)arena + word() % ARENA_BYTES;
	}
}

__u64 any_length(void)
{
	static const __u64 likely[] = {
		0,
		1,
		2,
		8,
		64,
		512,
		4095,
		4096,
		4097,
		8192,
		65536,
		65537,
		131072,
		1ULL << 20,
		1ULL << 30,
		1ULL << 32,
		(1ULL << 32) - 1,
		1ULL << 40,
		1ULL << 63,
		~0ULL,
		~0ULL - 4095,
	};
	uint8_t which = byte();

	if (which < 128)
		return 1 + which * 64;
	if (which < 224)
		return likely[which % 14];
	return which < 248 ? likely[which % KST_ARRAY_SIZE(likely)] : (__u64)word() << 32 | word();
}

void memory_open(void)
{
	size_t i;

	arena = guarded(ARENA_BYTES);
	for (i = 0; i < KST_ARRAY_SIZE(areas); i++)
		areas[i] = (void *)guarded(AREA_BYTES);
	_Static_assert(sizeof(struct area) <= AREA_BYTES, "an area has room");
	fixed = guarded(FIXED_BYTES);
	read_only = kst_map(KST_PAGE, PROT_READ, MAP_PRIVATE);
	zero_fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	plain_memfd = memfd_create("fuzz", MFD_CLOEXEC);
	sealed_memfd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	write_sealed_memfd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (zero_fd < 0 || event_fd < 0 || ftruncate(plain_memfd, 1 << 20) ||
	    ftruncate(sealed_memfd, 1 << 20) || ftruncate(write_sealed_memfd, 1 << 20) ||
	    fcntl(sealed_memfd, F_ADD_SEALS, F_SEAL_SHRINK) ||
	    fcntl(write_sealed_memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE))
		kst_bail("memory to fuzz with: %s", strerror(errno));
}

/* Memory changes under what is under way, and may be gone. */
void step_memory(enum step step)
{
	unsigned char *at = arena + byte() % ARENA_PAGES * KST_PAGE;
	size_t length = (1 + byte() % 8) * KST_PAGE;
	int prot = PROT_READ | PROT_WRITE, flags = MAP_FIXED;

	(void)step;
	if (at + length > arena + ARENA_BYTES)
		length = arena + ARENA_BYTES - at;
	arena_changed = true;
	switch (byte() % 8) {
	case 0:
		/* Nothing else may come to be there. */
		prot = PROT_NONE;
		flags |= MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
		break;
	case 1:
		mprotect(at, length, PROT_READ);
		return;
	case 2:
		madvise(at, length, MADV_DONTNEED);
		return;
	case 3:
		mmap(at, length, prot, flags | MAP_SHARED, sealed_memfd, 0);
		return;
	case 4:
		mmap(at, length, PROT_READ, flags | MAP_SHARED, write_sealed_memfd, 0);
		return;
	case 5:
		madvise(at, length, MADV_DONTFORK);
		return;
	case 6:
		/* Not by this program, which must not touch what may not be there. */
		if (read(zero_fd, at, length) < 0)
			return;
		return;
	default:
		flags |= MAP_PRIVATE | MAP_ANONYMOUS;
		break;
	}
	if (mmap(at, length, prot, flags, -1, 0) == MAP_FAILED)
		kst_bail("mmap: %s", strerror(errno));
}

void memory_reset(void)
{
	if (!arena_changed)
		return;
	arena_changed = false;
	if (mmap(arena, ARENA_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		kst_bail("mmap: %s", strerror(errno));
}
