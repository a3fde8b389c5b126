"""What differs from site to site of an attach point: its texts, and whether it was hit."""
