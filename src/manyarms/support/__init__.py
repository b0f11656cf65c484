"""Shared helpers: checks of arguments, linear algebra, random streams, stored columns, archives, threads."""
