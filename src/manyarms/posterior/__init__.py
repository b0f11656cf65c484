"""What stands for the history: the posterior over the pool, its state, and how a step changes it."""
