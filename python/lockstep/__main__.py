"""``python -m lockstep WORD...`` is the program itself."""

import os
import sys

from ._program import program

path = program()
os.execv(path, [str(path), *sys.argv[1:]])
