"""Shared helpers: input checks, linear algebra, random streams, column storage, archives, threads, interrupts."""
