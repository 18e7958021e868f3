# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""What the headers of libkrdma declare, for cffi: the compiler compares it with the headers.

Run by setup.py. KRDMA_INCLUDE is the folder that has krdma/krdma.h, KRDMA_LIB the one of libkrdma.so.
"""
import os
import re

import cffi

INCLUDE = os.environ["KRDMA_INCLUDE"]
LIB = os.environ["KRDMA_LIB"]

# The library has a function for each ioctl: nobody needs the structs of the others.
WANTED = re.compile(r"(?!struct krdma_ioc_(?!query\b))")
TYPES = {"__u8": "uint8_t", "__u16": "uint16_t", "__u32": "uint32_t", "__s32": "int32_t",
         "__aligned_u64": "uint64_t"}


def code_of(name: str) -> str:
    """A header without comments, and with the types that cffi knows."""
    with open(os.path.join(INCLUDE, "krdma", name), encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
    return re.sub(r"__\w+", lambda word: TYPES.get(word[0], word[0]), text)


def constants(code: str) -> str:
    """Macros that have a number. Lengths of arrays need it, the compiler tells the others'."""
    found = re.findall(r"^#define (KRDMA_\w+)[ \t]+(\S.*?)\s*$", code, re.MULTILINE)
    return "".join(f"#define {name} {value if value.isdigit() else '...'}\n" for name, value in found
                   if name != "KRDMA_INLINE")


def types(code: str) -> str:
    found = re.findall(r"^(?:struct|enum) \w+ \{.*?^\};", code, re.DOTALL | re.MULTILINE)
    return "\n".join(text for text in found if WANTED.match(text)) + "\n"


def functions(code: str) -> str:
    found = re.findall(r"^(?:KRDMA_INLINE )?([a-z][\w ]*\**\s*krdma_\w+\([^)]*\))\s*[;{]", code, re.MULTILINE)
    return "".join(text + ";\n" for text in found)


def builder() -> cffi.FFI:
    uapi, library = code_of("krdma_mover.h"), code_of("krdma.h")
    ffi = cffi.FFI()
    ffi.cdef(constants(uapi) + constants(library) + types(uapi) + "struct krdma; struct krdma_iter;\n" +
             types(library) + functions(library) + "void free(void *);\n")
    ffi.set_source("krdma._lib", "#include <stdlib.h>\n#include <krdma/krdma.h>\n", libraries=["krdma"],
                   include_dirs=[INCLUDE], library_dirs=[LIB])
    return ffi


ffibuilder = builder()
