"""Scores of a decomposition against what is known to be true."""
