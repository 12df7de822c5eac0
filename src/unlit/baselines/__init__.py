"""Methods that need no training, to compare with."""
