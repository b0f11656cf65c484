"""Continuous domains: a box, divided into a tree of cells whose centroids are the arms (theory §13)."""
