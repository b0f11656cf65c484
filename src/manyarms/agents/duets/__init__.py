"""DUETS: agents explore a shrinking active set uniformly and communicate once per epoch."""
