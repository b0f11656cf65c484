"""The apps of a run of agents over Flower."""
