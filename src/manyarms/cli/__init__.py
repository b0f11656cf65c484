"""The `manyarms` command: each subcommand parses its arguments, calls the library once and prints."""
