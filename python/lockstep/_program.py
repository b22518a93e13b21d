"""The program: where it lies, and how it is called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Sequence


class Error(RuntimeError):
    """The program ended with an error: ``code`` is its exit code, the text is what it said.

    Exit code 1: the system refused something. 2: the call asks for what cannot be. 3: the run diverged.
    """

    def __init__(self, words: Sequence[str], code: int, said: str) -> None:
        super().__init__(said.strip() or f"lockstep {' '.join(words)} ended with exit code {code}")
        self.code = code


def program() -> Path:
    """The program ``lockstep``: that of the environment's LOCKSTEP_PROGRAM, this package's own, or the first in PATH."""
    named = os.environ.get("LOCKSTEP_PROGRAM")
    if named:
        return Path(named)
    user = f"{os.name}_user"
    places = [
        Path(sysconfig.get_path("scripts")),
        Path(sysconfig.get_path("scripts", user)),
        Path(sys.prefix) / "bin",
        Path(__file__).resolve().parents[1] / "bin",  # pip install --target
    ]
    for place in places:
        if (place / "lockstep").is_file():
            return place / "lockstep"
    found = shutil.which("lockstep")
    if found is None:
        raise FileNotFoundError("the program lockstep is not in PATH: install lockstep-train, or name it in LOCKSTEP_PROGRAM")
    return Path(found)


def call(words: Sequence[str], *, capture: bool = True) -> str:
    """Runs the program and returns its standard output; without ``capture`` both outputs go where this process's go."""
    pipe = subprocess.PIPE if capture else None
    done = subprocess.run(
        [str(program()), *words],
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise Error(words, done.returncode, done.stderr or "")
    return done.stdout or ""
