"""Decomposing one whole sequence, without training."""
