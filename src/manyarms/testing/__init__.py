"""Test suites that third-party parts can inherit."""

from manyarms.testing.kernel_contract import KernelContract

__all__ = ["KernelContract"]
