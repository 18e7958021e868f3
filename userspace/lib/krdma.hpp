/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
/*
 * libkrdma for C++11: objects that end what they hold, and exceptions for errors. What is not here is
 * called as in C: get() and id() give what <krdma/krdma.h> takes.
 *
 * A session, region, buffer or export must end before its handle, and may be moved. A handle may be used by
 * several threads; an object, as others of C++, by one at a time.
 */
#ifndef KRDMA_HPP
#define KRDMA_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include <krdma/krdma.h>

namespace krdmapp {
/* what() begins with the sentence of krdma_error(), code() has the errno. */
class error : public std::system_error {
    public:
	explicit error(int code) : std::system_error(code, std::generic_category(), krdma_error())
	{
	}
};

/* For functions of libkrdma: throws if the result is a negative errno, and else returns it. */
inline int check(int rc)
{
	if (rc < 0)
		throw error(-rc);
	return rc;
}

class handle {
    public:
	handle()
	{
		check(krdma_new(&krdma_));
	}
	~handle()
	{
		krdma_free(krdma_);
	}
	handle(const handle &) = delete;
	handle &operator=(const handle &) = delete;

	struct krdma *get() const
	{
		return krdma_;
	}

    private:
	struct krdma *krdma_ = nullptr;
};

/* What has an id in a handle. */
class object {
    public:
	~object()
	{
		end();
	}
	object(object &&other) noexcept : krdma_(other.krdma_), id_(other.id_)
	{
		other.id_ = 0;
	}
	object &operator=(object &&other) noexcept
	{
		std::swap(krdma_, other.krdma_);
		std::swap(id_, other.id_);
		return *this;
	}

	uint32_t id() const
	{
		return id_;
	}
	/* Ends it now. */
	void destroy()
	{
		const uint32_t id = id_;

		id_ = 0;
		if (id)
			check(krdma_destroy(krdma_, id));
	}

    protected:
	explicit object(const handle &handle) : krdma_(handle.get())
	{
	}
	object(const object &) = delete;
	object &operator=(const object &) = delete;

	void end() noexcept
	{
		if (id_)
			krdma_destroy(krdma_, id_);
		id_ = 0;
	}

	struct krdma *krdma_;
	uint32_t id_ = 0;
};

class session : public object {
    public:
	session(const handle &handle, const std::string &host,
		const struct krdma_connect_options *options = nullptr)
		: object(handle)
	{
		check(krdma_connect_host(krdma_, host.c_str(), options, &id_, nullptr));
	}
};

class buffer : public object {
    public:
	/* Memory that stays mapped as long as operations use it. */
	buffer(const handle &handle, void *addr, size_t length,
	       uint32_t flags = KRDMA_BUFFER_WRITABLE)
		: object(handle)
	{
		check(krdma_register_buffer(krdma_, addr, length, flags, &id_));
	}
};

class exported : public object {
    public:
	exported(const handle &handle, const std::string &name, void *addr, size_t length,
		 uint32_t rights = KRDMA_RIGHT_READ | KRDMA_RIGHT_WRITE)
		: object(handle)
	{
		check(krdma_export_memory(krdma_, name.c_str(), addr, length, rights, 0, &id_));
	}
};

class region : public object {
    public:
	/* All of the rights have to be there; 0 is every right of the export. */
	region(const handle &handle, const session &session, const std::string &name,
	       uint32_t rights = 0)
		: object(handle)
	{
		check(krdma_open_region(krdma_, session.id(), name.c_str(), rights, 0, &info_));
		id_ = info_.id;
	}

	uint64_t size() const
	{
		return info_.length;
	}
	uint32_t rights() const
	{
		return info_.rights;
	}

	/* Each waits until the bytes are there. */
	void read(void *to, size_t length, uint64_t offset = 0)
	{
		struct krdma_op op;

		krdma_op_read(&op, id_, offset, to, length);
		run(op);
	}
	void write(const void *from, size_t length, uint64_t offset = 0)
	{
		struct krdma_op op;

		krdma_op_write(&op, id_, offset, from, length);
		run(op);
	}
	/* The old value. @offset is a multiple of 8. */
	uint64_t fetch_add(uint64_t offset, uint64_t value)
	{
		alignas(8) uint64_t before = 0;
		struct krdma_op op;

		krdma_op_fetch_add(&op, id_, offset, &before, value);
		run(op);
		return before;
	}
	/* Likewise; the new one is stored if the old one is @compare. */
	uint64_t compare_swap(uint64_t offset, uint64_t compare, uint64_t value)
	{
		alignas(8) uint64_t before = 0;
		struct krdma_op op;

		krdma_op_cmp_swap(&op, id_, offset, &before, compare, value);
		run(op);
		return before;
	}
	/* The CRC32C, which the peer computes. */
	uint32_t digest(uint64_t offset, uint64_t length)
	{
		alignas(8) uint64_t number = 0;
		struct krdma_op op;

		krdma_op_digest(&op, id_, offset, length, &number);
		run(op);
		return static_cast<uint32_t>(number);
	}
	/* To the holder of an export that takes messages, in a session with KRDMA_CONNECT_MESSAGES. */
	void send(const void *message, size_t length, uint64_t value = 0)
	{
		struct krdma_op op;

		krdma_op_send(&op, id_, message, length, value);
		run(op);
	}
	/* An operation of this region, made by krdma_op_*() and what it is to have besides. */
	void run(const struct krdma_op &op)
	{
		struct krdma_completion completion;

		if (check(krdma_submit(krdma_, &op, &completion, 1)))
			throw error(krdma_errno());
	}

    private:
	struct krdma_region info_;
};

} // namespace krdmapp

#endif /* KRDMA_HPP */
