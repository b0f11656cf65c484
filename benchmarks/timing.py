"""Measurement of time and memory."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parent.parent
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra on one core, so that CPU time equals elapsed time."""
    with threadpool_limits(limits=1):
        yield


def cpu_seconds(work: Callable[[], Any]) -> float:
    """CPU seconds of one call; other processes on the machine do not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


def median_seconds(work: Callable[[], Any], repeats: int) -> float:
    """Median CPU seconds of several calls."""
    return statistics.median(cpu_seconds(work) for _ in range(repeats))


def peak_bytes() -> int:
    """The peak resident memory of this process, in bytes.

    Linux records it per program (VmHWM); `ru_maxrss`, which is used on other systems, may include the
    parent's.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def peak_of(module: str, function: str, *arguments: Any) -> int:
    """Peak resident bytes of a fresh process that runs `module.function(*arguments)`."""
    return peak_and_result(module, function, *arguments)[0]


def peak_and_result(module: str, function: str, *arguments: Any) -> tuple[int, Any]:
    """Peak resident bytes, as in `peak_of`, and the function's return value after a JSON round trip."""
    code = (
        f"import json, {module}, benchmarks.timing as timing\n"
        f"result = {module}.{function}(*{arguments!r})\n"
        "print(json.dumps([timing.peak_bytes(), result]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **ONE_THREAD},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{module}.{function} failed:\n{done.stderr}")
    peak, result = json.loads(done.stdout.splitlines()[-1])
    return peak, result
