"""How much memory this process may still use."""

from __future__ import annotations

import os
from pathlib import Path

_GROUPS = (  # limit and usage of a control group, versions 2 and 1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
_UNKNOWN = 4 << 30  # bytes that are assumed where the system does not say


def available_memory() -> int:
    """Bytes that can be allocated without swapping, within the limit of a container if there is one."""
    found = [_of_machine()]
    for limit, usage in _GROUPS:
        most, used = _number(limit), _number(usage)
        if most is not None and used is not None and most < 1 << 60:
            found.append(max(most - used, 0))
    return min(found)


def _of_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):
        return _UNKNOWN


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None
