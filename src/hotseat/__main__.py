"""`python -m hotseat` is the `hotseat` command."""

from hotseat.cli import main

if __name__ == "__main__":
    main()
