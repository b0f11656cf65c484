"""The server of the run."""

from manyarms.federation.flower.server_app import app

__all__ = ["app"]
