"""The steps of maps as C."""
