/* SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause */
#ifndef KRDMA_INTERNAL_H
#define KRDMA_INTERNAL_H

#include <krdma/krdma.h>

/* libkrdma.c */

/*
 * Leave the sentence for krdma_error() and return -error, so that a failure is
 * one statement: return krdma__fail(...).
 */
int krdma__fail(int error, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ioctl(2); on failure, the kernel's sentence is left for krdma_error(). */
int krdma__ioctl(struct krdma *krdma, unsigned long request, void *arg);

#endif /* KRDMA_INTERNAL_H */
