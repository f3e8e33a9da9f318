"""Benchmarks: each beside its peers in one run, medians and ratios, an environment header."""
