"""`python -m lapwing` is the program `lapwing`."""

from lapwing.cli.main import run

run()
