"""USDT notes and their arguments."""
