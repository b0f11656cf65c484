"""Finite-dimensional stand-ins for a kernel."""

from manyarms.embeddings.base import Embedding
from manyarms.embeddings.columns import Columns
from manyarms.embeddings.growing import GrowingMatrix
from manyarms.embeddings.nystrom import Nystrom

__all__ = ["Columns", "Embedding", "GrowingMatrix", "Nystrom"]
