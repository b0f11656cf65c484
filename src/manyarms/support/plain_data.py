"""Results as plain data for JSON."""

from __future__ import annotations

import dataclasses
import math
from typing import Any


def plain_data(data: Any) -> Any:
    """Dataclasses become objects, tuples become lists, and NaN and infinities become null."""
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        data = dataclasses.asdict(data)
    if isinstance(data, dict):
        return {str(key): plain_data(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain_data(each) for each in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
