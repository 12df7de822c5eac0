"""Learning from sequences: the loop, its schedule, its checkpoints and its journal."""
