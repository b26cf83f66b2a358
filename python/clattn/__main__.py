"""python -m clattn …: the command."""

import os
import subprocess
import sys

from ._interface import FOLDER

command = os.environ.get("CLATTN_COMMAND") or str(FOLDER / ("clattn.exe" if os.name == "nt" else "clattn"))
sys.exit(subprocess.run([command, *sys.argv[1:]]).returncode)
