"""A run: its state, asking for batches, recording results, saving and loading."""
