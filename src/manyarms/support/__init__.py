"""Shared helpers: input checks, linear algebra, random streams, growing arrays."""
