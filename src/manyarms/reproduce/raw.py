"""Raw results on disk: one gzipped CSV file per job, written in one move, its settings in the first line.

A file is there completely or not at all, so a run that was killed goes on where it stopped. Numbers are in
`raw/`, timings in `timings/`; digests are of the numbers alone.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from manyarms.reproduce.experiment import Columns, Job, Outcome, Result

_DAMAGED = (OSError, EOFError, zlib.error, UnicodeDecodeError, ValueError)


def as_text(described: str, columns: Columns) -> str:
    """A comment line with the settings, a header, one line per row; floats are written exactly."""
    lines = [f"# {described}", ",".join(columns)]
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines += [",".join(repr(float(value)).removesuffix(".0") for value in row) for row in rows]
    return "\n".join(lines) + "\n"


def of_text(text: str) -> tuple[str, Columns]:
    """The settings line and the columns back."""
    described, header, *rows = text.splitlines()
    names = header.split(",") if header else []
    values = np.array([row.split(",") for row in rows], dtype=np.float64).reshape(len(rows), len(names))
    return described.removeprefix("# "), dict(zip(names, values.T, strict=True))


class RawFolder:
    """The results of one experiment under one folder."""

    def __init__(self, folder: Path, experiment: str) -> None:
        self.folder, self.experiment = folder, experiment

    def number_file(self, job: Job) -> Path:
        """Where a job's numbers are."""
        return self.folder / "raw" / f"{job.key}.csv.gz"

    def timing_file(self, job: Job) -> Path:
        """Where a job's timings are."""
        return self.folder / "timings" / f"{job.key}.csv.gz"

    def write(self, job: Job, outcome: Outcome) -> None:
        """Keep an outcome; the numbers come last, for they say that the job is done."""
        described = job.described(self.experiment)
        _put(self.timing_file(job), as_text(described, outcome.timings))
        _put(self.number_file(job), as_text(described, outcome.numbers))

    def read(self, job: Job) -> Result | None:
        """A stored result of exactly these settings; None if there is none, or if it is damaged."""
        wanted = job.described(self.experiment)
        try:
            said, numbers = of_text(_got(self.number_file(job)))
            said_of_timings, timings = of_text(_got(self.timing_file(job)))
        except _DAMAGED:
            return None
        return Result(job, numbers, timings) if wanted == said == said_of_timings else None

    def digests(self, jobs: Iterable[Job]) -> dict[str, str]:
        """SHA-256 of the (uncompressed) numbers of each job, by file."""
        files = sorted(self.number_file(job) for job in jobs)
        return {file.name: hashlib.sha256(_got(file).encode()).hexdigest() for file in files}


def digest_of(digests: Mapping[str, str]) -> str:
    """One digest of all files."""
    lines = "".join(f"{digest}  {file}\n" for file, digest in sorted(digests.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def _put(path: Path, text: str) -> None:
    put_bytes(path, gzip.compress(text.encode(), mtime=0))


def put_bytes(path: Path, data: bytes) -> None:
    """Write a file in one move: no reader ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(data)
    os.replace(beside, path)


def _got(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()
