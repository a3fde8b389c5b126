"""How `scripts/test` runs everything: several pytest processes beside each other, each the next file that none has
begun (`plugin`), what came of them (`results`), and which of them runs when (`__main__`).
"""
