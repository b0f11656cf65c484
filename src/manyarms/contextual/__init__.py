"""Bandits whose arms change every round: nothing is kept but inducing points and V."""
