"""A recorded session as the picture of a terminal: terminal_svg.py COLUMNS COMMAND SESSION SVG"""

import io
import itertools
import re
import sys

from rich.console import Console
from rich.text import Text

columns, command, session, svg = sys.argv[1:]
console = Console(record=True, width=int(columns), file=io.StringIO(), color_system="truecolor", force_terminal=True)
console.print(Text.assemble(("$ ", "bold green"), (re.sub(r" --color \w+", "", command), "bold")))

def is_progress(line):
    return line.startswith(("step ", "Saved checkpoint"))


with open(session, encoding="utf-8") as text:
    for progress, lines in itertools.groupby(text.read().splitlines(), is_progress):
        lines = list(lines)
        if progress and len(lines) > 7:  # a picture has no room for all of them
            lines[4:-2] = ["..."]
        for line in lines:
            console.print(Text.from_ansi(line), soft_wrap=False)
drawing = console.export_svg(title="lockstep")
drawing = re.sub(r"@font-face \{.*?\}\s*", "", drawing, flags=re.S)  # no font is fetched from elsewhere
drawing = drawing.replace("Fira Code, monospace", "DejaVu Sans Mono, Menlo, Consolas, monospace")
with open(svg, "w", encoding="utf-8") as file:
    file.write(drawing)
