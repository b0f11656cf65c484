"""May this path be written? The one answer for every file that a user names, and the atomic write itself.

A file is written under another name, or under no name at all, and appears at its path complete or not at all.
An existing file is replaced only if the caller says so, and a table of candidates or a database never is.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from manyarms.errors import OutputError

_SQLITE = b"SQLite format 3\0"
_BESIDE_DATABASES = ("-wal", "-shm", "-journal")


def is_database(path: Path) -> bool:
    """Whether the file is an SQLite database, or one of the files that SQLite keeps next to one."""
    owners = [path, *(path.with_name(path.name.removesuffix(end)) for end in _BESIDE_DATABASES)]
    return any(_begins_as_database(owner) for owner in owners)


def _begins_as_database(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def check_writable(path: Path, *, force: bool = False, never: Iterable[Path] = ()) -> None:
    """Raise an error unless a file may be written here.

    `force` allows an existing regular file to be replaced. The files of `never` (the table of candidates) and
    databases are not replaced in any case.
    """
    for kept in never:
        if _same(path, kept):
            raise OutputError(f"{path}: is the table of candidates, which is never overwritten")
    if is_database(path):
        raise OutputError(f"{path}: is a database, which is never overwritten")
    if path.exists() and not path.is_file():  # a folder or a pipe is not replaced by a file
        raise OutputError(f"{path}: cannot be written: not a regular file")
    if os.path.lexists(path) and not force:
        raise _already_exists(path)


def _same(path: Path, other: Path) -> bool:
    with suppress(OSError):
        return path.samefile(other)
    return path.absolute() == other.absolute()


def _already_exists(path: Path) -> OutputError:
    return OutputError(f"{path}: the file already exists; use --force to replace it, or another name")


@dataclass
class OutputFile:
    """A file that is put in place atomically and can be withdrawn, for as long as `settle` was not called."""

    path: Path
    force: bool = False
    never: tuple[Path, ...] = ()
    _kept: Path | None = field(default=None, repr=False)  # the replaced file, until it is certain
    _placed: tuple[int, ...] | None = field(default=None, repr=False)  # identifies the new file

    def check(self) -> None:
        """Raise an error unless the file may be written."""
        check_writable(self.path, force=self.force, never=self.never)

    @contextmanager
    def writing(self, mode: str = "w") -> Iterator[IO[Any]]:
        """A stream to write to. The file appears at its path when the block succeeds."""
        self.check()
        text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
        partial = self._beside("part")
        try:
            with open(partial, mode, **text) as stream:
                yield stream
                flush_to_disk(stream)
            self._move(partial)
        except OutputError:
            raise
        except OSError as problem:
            raise OutputError(f"{self.path}: cannot be written: {problem.strerror or problem}") from None
        finally:
            partial.unlink(missing_ok=True)

    def _beside(self, kind: str) -> Path:
        owner = f"{os.getpid()}-{threading.get_native_id()}"
        return self.path.with_name(f".{self.path.name}.{owner}.{kind}")

    def _move(self, partial: Path) -> None:
        """Give the complete file its name, and keep what it replaces until `settle`."""
        placed = _identity(partial)
        if self.force:
            if self.path.exists():
                self._kept = self._beside("old")
                self._kept.unlink(missing_ok=True)
                _linked_or_copied(self.path, self._kept)
            os.replace(partial, self.path)
        else:
            place_new(partial, self.path)
        self._placed = placed
        flush_folder(self.path.parent)

    def settle(self) -> None:
        """Keep the new file for good."""
        if self._kept is not None:
            self._kept.unlink(missing_ok=True)
        self._kept = self._placed = None

    def withdraw(self) -> None:
        """Restore what was there before; a file that somebody else has put there since is left alone."""
        placed, kept = self._placed, self._kept
        self._placed = self._kept = None
        if placed is None:
            return
        with suppress(OSError):
            if _identity(self.path) == placed:
                if kept is None:
                    self.path.unlink()
                else:
                    os.replace(kept, self.path)
        if kept is not None:
            kept.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_mtime_ns


@contextmanager
def replacing(
    path: Path, mode: str = "w", *, force: bool = True, never: tuple[Path, ...] = ()
) -> Iterator[IO[Any]]:
    """Write a file atomically: it appears at `path` if the block succeeds."""
    file = OutputFile(path, force, never)
    with file.writing(mode) as stream:
        yield stream
    file.settle()


def write_new(path: Path, data: bytes) -> None:
    """Write a new file; an error if it exists. A process that is killed leaves nothing behind.

    The file gets its name when it is complete. Where the system cannot do that, it is written under another
    name first.
    """
    nameless = getattr(os, "O_TMPFILE", None)
    if nameless is not None:
        try:
            with os.fdopen(os.open(path.parent, nameless | os.O_RDWR, 0o666), "wb") as stream:
                stream.write(data)
                flush_to_disk(stream)
                # A source folder makes Python follow the link in /proc; with an absolute path it is not used.
                os.link(f"/proc/self/fd/{stream.fileno()}", path, src_dir_fd=stream.fileno())
            flush_folder(path.parent)
            return
        except FileExistsError:
            raise _already_exists(path) from None
        except OSError:
            pass
    with replacing(path, "wb", force=False) as stream:
        stream.write(data)


def place_new(partial: Path, path: Path) -> None:
    """Give a complete file its name; an error if that exists. Without links, the name is reserved first."""
    try:
        try:
            os.link(partial, path)
        except FileExistsError:
            raise
        except OSError:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.replace(partial, path)
    except FileExistsError:
        raise _already_exists(path) from None


def _linked_or_copied(path: Path, other: Path) -> None:
    try:
        os.link(path, other)
    except OSError:  # the file system has no links
        shutil.copy2(path, other)


def flush_to_disk(stream: IO[Any]) -> None:
    """Flush the stream and, for a regular file, the buffers of the operating system."""
    stream.flush()
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):  # fsync fails on a pipe or a terminal
        os.fsync(stream.fileno())


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder, where the system supports it."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
