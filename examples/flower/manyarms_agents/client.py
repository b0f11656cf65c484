"""One agent of the run."""

from manyarms.federation.flower.client_app import app

__all__ = ["app"]
