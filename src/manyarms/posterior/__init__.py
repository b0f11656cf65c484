"""The posterior over the pool, which summarises the history: its state, and how a step updates it."""
