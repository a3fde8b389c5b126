"""What a user chooses by name: nothing but names, so that the command line knows them at every start. What each stands
for is imported when it is chosen.
"""

BACKENDS = ("bcc", "ftrace")
"""In order of preference; a package of `backends`, whose class is the name with `Backend` behind it."""

RENDERERS = {"text": "TextRenderer", "json": "JsonRenderer"}
"""Each output format with the name of its renderer, which stands in a module of `render` of the format's name."""

STACKS = {
    "folded": (".folded", ".collapsed"),
    "html": (".html", ".htm"),
    "svg": (".svg",),
    "pprof": (".pb.gz", ".pprof"),
    "speedscope": (".speedscope.json", ".speedscope"),
}
"""Each format for maps of stacks, a module of `render.stacks`, with the endings of its files."""

STAGES = ("ast", "typed", "steps", "plan", "program", "bytecode")
"""What a program is on its way, in order: `pipeline.dump` shows each."""
