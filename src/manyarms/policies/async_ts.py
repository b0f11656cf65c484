"""Asynchronous Thompson sampling (theory §5.18): every free worker gets the best arm of a new draw."""

from __future__ import annotations

from dataclasses import dataclass

from manyarms.errors import InvalidParameterError
from manyarms.policies.s_gp_ts import SGPTS
from manyarms.support.validation import count


@dataclass(frozen=True, kw_only=True)
class AsyncTS(SGPTS):
    """Kandasamy et al. 2018 (asyTS), on the sparse posterior of `SGPTS`.

    workers: the number of evaluations that `maximize` keeps running on its executor. As soon as one of them
        is done, its result is used and the next draw is made; the others are not waited for.

    `ask()` gives one draw, which does not depend on pending results: draws differ because they are random.
    Ask whenever a worker is free. The other settings are those of `SGPTS`; batch_size is 1.
    """

    workers: int = 1

    def __post_init__(self) -> None:
        count("workers", self.workers)
        if self.batch_size != 1:
            raise InvalidParameterError("batch_size", self.batch_size, "1: each free worker gets one draw")
        super().__post_init__()
