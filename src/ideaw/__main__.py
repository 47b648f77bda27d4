"""`python -m ideaw`: the command, where its script is not on the PATH."""

from ideaw.cli import main

main()
