"""The kernel UCB algorithms that DUETS is compared with."""
