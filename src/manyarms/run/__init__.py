"""One run: its state, asking and telling, saving and loading."""
