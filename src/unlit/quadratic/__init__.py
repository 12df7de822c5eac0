"""One picture decomposed by the minimum of a quadratic whose some eighty weights are learned from sequences."""
