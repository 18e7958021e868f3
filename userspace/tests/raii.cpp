// SPDX-License-Identifier: GPL-2.0
/* <krdma/krdma.hpp> over tests/fake: no kernel module. */
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>

#include <sys/stat.h>
#include <unistd.h>

#include <krdma/krdma.hpp>

static unsigned int tests, failures;

static void check(bool good, const char *what)
{
	tests++;
	failures += !good;
	std::printf("%s %u - %s\n", good ? "ok" : "not ok", tests, what);
}

/* Files of the directory are exports of every peer. */
static void make_export(const std::string &path, const std::string &bytes, mode_t mode)
{
	FILE *file = std::fopen(path.c_str(), "we");

	if (!file || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() ||
	    std::fclose(file) || chmod(path.c_str(), mode))
		std::abort();
}

template <typename Function> static int errno_of(Function function)
{
	try {
		function();
	} catch (const krdmapp::error &e) {
		std::printf("# %s\n", e.what());
		return e.code().value();
	}
	return 0;
}

static void bytes_and_numbers(const krdmapp::handle &handle, const krdmapp::session &session)
{
	krdmapp::region region(handle, session, "nine");
	uint64_t number = 41;
	char text[10] = "";

	check(region.size() == 16, "a region has its size");
	region.read(text, 9);
	check(!std::strcmp(text, "123456789"), "read");
	region.write("abc", 3, 3);
	region.read(text, 9);
	check(!std::strcmp(text, "123abc789"), "write");
	region.write("456", 3, 3);
	check(region.digest(0, 9) == 0xe3069283, "digest");
	region.write(&number, sizeof(number), 8);
	check(region.fetch_add(8, 1) == 41 && region.compare_swap(8, 42, 7) == 42 &&
		      region.compare_swap(8, 42, 8) == 7,
	      "numbers");
	check(errno_of([&] { region.read(text, 9, 8); }) == ERANGE, "an error is an exception");
}

static void lifetimes(const krdmapp::handle &handle, const krdmapp::session &session)
{
	alignas(4096) static char memory[4096];
	uint32_t id;

	check(!std::is_copy_constructible<krdmapp::region>::value &&
		      !std::is_copy_assignable<krdmapp::session>::value,
	      "objects are not copied");
	{
		krdmapp::buffer first(handle, memory, sizeof(memory));
		krdmapp::buffer moved(std::move(first));

		id = moved.id();
		check(id && !first.id(), "and are moved");
	}
	check(krdma_destroy(handle.get(), id) == -ENOENT, "they end what they hold");
	{
		krdmapp::exported exported(handle, "memory", memory, sizeof(memory));
		krdmapp::region region(handle, session, "memory", KRDMA_RIGHT_READ);

		exported.destroy();
		check(!exported.id(), "or earlier, if that is asked for");
	}
	check(errno_of([&] { krdmapp::region(handle, session, "memory"); }) == ENOENT,
	      "what has ended is not there");
	check(errno_of([&] { krdmapp::session(handle, "[::1"); }) == EINVAL, "no host");
}

int main()
{
	char directory[] = "/tmp/krdma-raii-XXXXXX";

	if (!mkdtemp(directory) || setenv("KRDMA_FAKE_DIR", directory, 1))
		return EXIT_FAILURE;
	const std::string path = std::string(directory) + "/nine";

	make_export(path, std::string("123456789") + std::string(7, '\0'), 0600);
	try {
		krdmapp::handle handle;
		krdmapp::session session(handle, "10.0.0.2");

		bytes_and_numbers(handle, session);
		lifetimes(handle, session);
	} catch (const std::exception &e) {
		std::printf("Bail out! %s\n", e.what());
		return EXIT_FAILURE;
	}
	unlink(path.c_str());
	rmdir(directory);
	std::printf("1..%u\n", tests);
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
