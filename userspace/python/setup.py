# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Run by 'make -C userspace python', with the version in KRDMA_VERSION. Needs nothing of PyPI."""
import os

from setuptools import setup

setup(
    name="krdma",
    version=os.environ["KRDMA_VERSION"],
    description="Move bytes between the memories of hosts over RDMA, with krdma_mover",
    license="LGPL-2.1 OR BSD-2-Clause",
    packages=["krdma"],
    package_data={"krdma": ["py.typed"]},
    python_requires=">=3.10",
    install_requires=["cffi"],
    cffi_modules=["declarations.py:ffibuilder"],
    # One file for all versions of Python.
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
    zip_safe=False,
)
