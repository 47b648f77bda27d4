"""`python -m ideaw.cli`, for launchers that want a module, as `torchrun` does."""

from ideaw.cli import main

if __name__ == "__main__":
    main()
