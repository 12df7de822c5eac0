"""Which pixels of a sequence are to be left out, kind by kind: light that was cut off, sky, and what comes and goes."""
