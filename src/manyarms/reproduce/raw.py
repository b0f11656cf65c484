"""Raw results on disk: one gzipped CSV file per job, written atomically, with its settings in the first line.

Files are never partially written, so a run that was killed continues where it stopped. Numbers are in `raw/`
and timings in `timings/`; digests cover the numbers only.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from manyarms.reproduce.experiment import Columns, ExperimentResult, Job, JobOutcome

_DAMAGED = (OSError, EOFError, zlib.error, UnicodeDecodeError, ValueError)


def to_text(described: str, columns: Columns) -> str:
    """A comment line with the settings, a header, and one line per row; floats are written exactly."""
    lines = [f"# {described}", ",".join(columns)]
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    lines += [",".join(repr(float(value)).removesuffix(".0") for value in row) for row in rows]
    return "\n".join(lines) + "\n"


def from_text(text: str) -> tuple[str, Columns]:
    """The settings line and the columns, the inverse of `to_text`."""
    described, header, *rows = text.splitlines()
    names = header.split(",") if header else []
    values = np.array([row.split(",") for row in rows], dtype=np.float64).reshape(len(rows), len(names))
    return described.removeprefix("# "), dict(zip(names, values.T, strict=True))


class RawFolder:
    """The stored results of one experiment."""

    def __init__(self, folder: Path, experiment: str) -> None:
        self.folder, self.experiment = folder, experiment

    def number_file(self, job: Job) -> Path:
        """The file with a job's numbers."""
        return self.folder / "raw" / f"{job.key}.csv.gz"

    def timing_file(self, job: Job) -> Path:
        """The file with a job's timings."""
        return self.folder / "timings" / f"{job.key}.csv.gz"

    def write(self, job: Job, outcome: JobOutcome) -> None:
        """Store an outcome. The numbers are written last, because their file marks the job as done."""
        described = job.described(self.experiment)
        _write_text(self.timing_file(job), to_text(described, outcome.timings))
        _write_text(self.number_file(job), to_text(described, outcome.numbers))

    def read(self, job: Job) -> ExperimentResult | None:
        """The stored result of exactly these settings; None if it is missing or damaged."""
        expected = job.described(self.experiment)
        try:
            described, numbers = from_text(_read_text(self.number_file(job)))
            described_timings, timings = from_text(_read_text(self.timing_file(job)))
        except _DAMAGED:
            return None
        return ExperimentResult(job, numbers, timings) if expected == described == described_timings else None

    def digests(self, jobs: Iterable[Job]) -> dict[str, str]:
        """SHA-256 of each job's uncompressed file of numbers, by file name."""
        files = sorted(self.number_file(job) for job in jobs)
        return {file.name: hashlib.sha256(_read_text(file).encode()).hexdigest() for file in files}


def digest_of(digests: Mapping[str, str]) -> str:
    """A single digest of all files."""
    lines = "".join(f"{digest}  {file}\n" for file, digest in sorted(digests.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def _write_text(path: Path, text: str) -> None:
    write_atomically(path, gzip.compress(text.encode(), mtime=0))


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file atomically, so that no reader ever sees a partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def _read_text(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()
