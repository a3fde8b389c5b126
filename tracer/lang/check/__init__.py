"""Names and types: the rules that `lang.analyse` applies, one family of constructs per module."""
