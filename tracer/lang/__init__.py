"""The language: text to syntax tree (`parser`), syntax tree to typed program (`analyse`), dumps of both (`printer`)."""
