"""Which pixels should agree, and how strongly."""
