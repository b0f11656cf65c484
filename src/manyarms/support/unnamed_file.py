"""Temporary files without a name, mapped into memory; the system removes them however the process ends.

Before a part of a file is written, room for it has to be reserved: a full disk is then an error that can be
handled, instead of the death of the process at some later moment.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import weakref
from pathlib import Path


class UnnamedFile:
    """A file of so many bytes in a folder, mapped as `mapped`. Making it raises OSError if that fails."""

    def __init__(self, folder: str, nbytes: int) -> None:
        with tempfile.TemporaryFile(dir=folder, prefix="manyarms-") as file:
            file.truncate(nbytes)
            self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor).atexit = False
        self.mapped = mmap.mmap(self._descriptor, nbytes)

    def reserve(self, start: int, nbytes: int) -> None:
        """Make sure that these bytes can be written through the mapping; OSError if there is no room."""
        reserve(self._descriptor, start, nbytes)


def reserve(descriptor: int, start: int, nbytes: int) -> None:
    """Make the system promise room for a part of a file that has not been written yet."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, start, nbytes)
        return
    zeros = bytes(1 << 20)  # writing is the only promise that every system keeps
    for place in range(start, start + nbytes, len(zeros)):
        os.lseek(descriptor, place, os.SEEK_SET)
        os.write(descriptor, zeros[: start + nbytes - place])


def default_folder() -> str:
    """TMPDIR if it is set, else /var/tmp, which unlike /tmp is rarely held in memory."""
    if "TMPDIR" not in os.environ and os.access("/var/tmp", os.W_OK | os.X_OK):
        return "/var/tmp"
    return tempfile.gettempdir()


def free_bytes(folder: str) -> int:
    """The free room of a folder's disk."""
    return shutil.disk_usage(Path(folder)).free
