EXAMPLE = ""
def command() -> int: return 0
