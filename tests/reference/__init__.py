"""Slow, obvious versions of the mathematics, written from the definitions; the fast ones must equal them."""
