"""A program in Python that plays mneme in the tests of scripts."""
import stat
import sys

# `arguments`, which go into the file $LOG, a line of JSON a call; and the word behind an option.
_START = '''#!{python} -IS
import json, os, pathlib, signal, sys
arguments = sys.argv[1:]
with open(os.environ["LOG"], "a") as log:
    log.write(json.dumps(arguments) + "\\n")
def after(option):
    return arguments[arguments.index(option) + 1]
'''


def write(path, rest):
    """The program `path`, which goes on with the lines `rest`."""
    path.write_text(_START.format(python=sys.executable) + rest, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
