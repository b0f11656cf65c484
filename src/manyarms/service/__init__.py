"""Campaigns over HTTP: the service (FastAPI), its tokens, the client and the worker."""
