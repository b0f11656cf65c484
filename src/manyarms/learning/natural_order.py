"""The order of labels that contain numbers, such as "16", "block_16" or "v2": 2 comes before 16."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LAST_NUMBER = re.compile(r"(.*?)([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(\D*)", re.DOTALL)


def ranks(labels: Sequence[str]) -> tuple[int, ...] | None:
    """The rank of each label by its last number; None if they differ in anything else or not in it."""
    parsed = [_LAST_NUMBER.fullmatch(label) for label in labels]
    found = [match.groups() for match in parsed if match is not None]
    numbers = [float(number) for _, number, _ in found]
    different = sorted(set(numbers))
    if len({(before, after) for before, _, after in found}) != 1 or len(different) < len(labels):
        return None
    return tuple(different.index(number) for number in numbers)
