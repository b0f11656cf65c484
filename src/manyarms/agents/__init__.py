"""Bandit algorithms for many agents and one server that share what they learn with little communication."""

from manyarms.agents.active_region import Box
from manyarms.agents.baselines.approx_dis_kernel_ucb import ApproxDisKernelUCB
from manyarms.agents.baselines.dis_kernel_ucb import DisKernelUCB
from manyarms.agents.baselines.n_kernel_ucb import NKernelUCB
from manyarms.agents.baselines.ucb import Contexts
from manyarms.agents.duets.duets import DUETS
from manyarms.agents.protocol.agent import Agent, Pulls, Turn
from manyarms.agents.protocol.coins import Coin, Coins
from manyarms.agents.protocol.costs import Cost, Ledger
from manyarms.agents.protocol.server import Outgoing, Server
from manyarms.agents.runner import Run, RunResult, run

__all__ = [
    "DUETS",
    "Agent",
    "ApproxDisKernelUCB",
    "Box",
    "Coin",
    "Coins",
    "Contexts",
    "Cost",
    "DisKernelUCB",
    "Ledger",
    "NKernelUCB",
    "Outgoing",
    "Pulls",
    "Run",
    "RunResult",
    "Server",
    "Turn",
    "run",
]
