"""Runs with short horizons, because over Flower every turn of an agent is a process of its own."""

from __future__ import annotations

from types import MappingProxyType

from manyarms import agents
from tests.agents.support import KERNEL
from tests.federation.support import N

SHORT_RUNS = MappingProxyType(
    {
        "duets": agents.DUETS(KERNEL, 0.2, N, 12, width=0.5, noise_std=0.2),
        "dis": agents.DisKernelUCB(KERNEL, 0.2, N, 3, sync_threshold=3.0),
        "approx": agents.ApproxDisKernelUCB(KERNEL, 0.2, N, 3, sync_threshold=8.0),
        "separate": agents.NKernelUCB(KERNEL, 0.2, N, 2),
    }
)
