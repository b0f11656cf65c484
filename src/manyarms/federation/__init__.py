"""Agents and their server on different machines: signed packets, files that survive restarts, and carriers.

The state machines of `manyarms.agents` do not know that they are apart. A `Hub` holds the server of a run, a
`Member` holds one agent, and both keep everything in a file of their own. They exchange packets, which a
carrier transports: the mailbox of `manyarms serve` (`http_carrier`), Flower (`flower`), or a function call.
"""
