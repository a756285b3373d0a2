"""`python -m taskspace` is the command line."""

from taskspace.cli import main

main()
