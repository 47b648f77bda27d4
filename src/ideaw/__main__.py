"""`python -m ideaw`: the command for launchers that want a module, and where its script is not on the PATH."""

from ideaw.cli import main

if __name__ == "__main__":
    main()
