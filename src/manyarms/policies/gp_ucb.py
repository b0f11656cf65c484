"""GP-UCB (theory §5.2): the highest upper bound of the exact posterior, with feedback after every pull."""

from __future__ import annotations

from dataclasses import dataclass

from manyarms.policies.base import Policy


@dataclass(frozen=True, kw_only=True)
class GPUCB(Policy):
    """Exact GP-UCB (Srinivas et al. 2010), updated in one pass over the pool; settings as in `Policy`."""
