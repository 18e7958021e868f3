/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
#ifndef KRDMA_INTERNAL_H
#define KRDMA_INTERNAL_H

#include <krdma/krdma.h>

/* libkrdma.c */

/*
 * Set the error text of krdma_error() and return -error, so that a failure is
 * one statement: return krdma__fail(...).
 */
int krdma__fail(int error, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* An address as commands have it. */
void krdma__storage(const struct krdma_sockaddr *addr, struct __kernel_sockaddr_storage *to);

/* ioctl(2); on failure, krdma_error() has the kernel's error text. */
int krdma__ioctl(struct krdma *krdma, unsigned long request, void *arg);

#endif /* KRDMA_INTERNAL_H */
