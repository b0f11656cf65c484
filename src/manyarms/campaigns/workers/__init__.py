"""Measure candidates with a program or a Python function, with several workers on this machine."""
