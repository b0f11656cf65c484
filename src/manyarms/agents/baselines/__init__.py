"""The kernelised UCB algorithms with which DUETS is compared."""
