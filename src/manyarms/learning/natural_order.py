"""What the labels of categories say: their order by a number ("block_16"), and what they have in common."""

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


def common_name(labels: Sequence[str]) -> str:
    """What the names of one-hot columns begin with, such as "block" of block_16 and block_8; may be empty."""
    first, last = min(labels), max(labels)
    alike = [a == b for a, b in zip(first, last, strict=False)]
    common = first[: alike.index(False)] if False in alike else first
    return common.rstrip("0123456789.+-").rstrip(" _=:.-")
