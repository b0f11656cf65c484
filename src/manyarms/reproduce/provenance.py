"""The provenance of results: commit, library versions and machine."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import manyarms

LIBRARIES = ("numpy", "scipy", "scikit-learn", "matplotlib")


def provenance() -> dict[str, Any]:
    """Commit, versions and machine as plain data for a manifest."""
    commit = git("rev-parse", "HEAD")
    return {
        "commit": commit,
        "uncommitted_changes": None if commit is None else bool(git("status", "--porcelain")),
        "versions": {
            "python": platform.python_version(),
            "manyarms": manyarms.__version__,
            **{name: _version(name) for name in LIBRARIES},
        },
        "machine": {
            "platform": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
        },
    }


def git(*arguments: str) -> str | None:
    """The output of a git command in the checkout of this package; None outside a checkout."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()
