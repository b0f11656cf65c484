"""Reproduction of the papers' figures: `manyarms reproduce NAME`, or `reproduce(named(NAME))` in Python."""
