"""Runs of agents over Flower (`manyarms[flower]`): the packets of the mailbox as Flower messages.

Flower's server speaks first, so it polls: each message carries the last packet of the hub, and the reply the
next packet of the agent. All state is in the run file and in the agents' files; nothing is lost if a
SuperLink, a SuperNode or an app is stopped and started again.
"""
