"""The user's table of candidates: reading it, identifying it and computing fingerprints."""
