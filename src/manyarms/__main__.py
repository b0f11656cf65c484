"""`python -m manyarms` runs the `manyarms` command."""

from manyarms.cli.main import main

if __name__ == "__main__":
    main()
