"""The papers' figures again: `manyarms reproduce NAME`, or `reproduce(named(NAME))` from Python."""
