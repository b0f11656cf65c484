"""Many agents, one server: bandit algorithms whose agents share what they learn for few numbers sent."""

from manyarms.agents.agent import Agent, Pulls
from manyarms.agents.approx_dis_kernel_ucb import ApproxDisKernelUCB
from manyarms.agents.box import Box
from manyarms.agents.coins import Coin
from manyarms.agents.dis_kernel_ucb import DisKernelUCB
from manyarms.agents.duets import DUETS
from manyarms.agents.ledger import Cost, Ledger
from manyarms.agents.n_kernel_ucb import NKernelUCB
from manyarms.agents.runner import Run, RunResult, run
from manyarms.agents.server import Outgoing, Server
from manyarms.agents.ucb import Contexts

__all__ = [
    "DUETS",
    "Agent",
    "ApproxDisKernelUCB",
    "Box",
    "Coin",
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
    "run",
]
