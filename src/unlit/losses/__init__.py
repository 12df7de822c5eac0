"""The terms of the energy, one file each, and the energy."""
