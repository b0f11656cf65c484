"""Many agents, one server: bandit algorithms whose agents share what they learn for few numbers sent."""

from manyarms.agents.agent import Agent, Pulls
from manyarms.agents.box import Box
from manyarms.agents.coins import Coin
from manyarms.agents.duets import DUETS
from manyarms.agents.ledger import Cost, Ledger
from manyarms.agents.runner import Run, RunResult, run
from manyarms.agents.server import Outgoing, Server

__all__ = ["DUETS", "Agent", "Box", "Coin", "Cost", "Ledger", "Outgoing", "Pulls", "Run", "RunResult", "Server", "run"]
