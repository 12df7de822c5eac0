"""Sequences of frames of one fixed view: in memory, on disk, and what prepares and serves them."""
