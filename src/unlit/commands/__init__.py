"""The commands, as typed functions: their arguments are the options."""
