"""Random valid programs over the target `depot`, each a function of its seed, and how each leg answers them."""
