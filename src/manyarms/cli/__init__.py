"""The `manyarms` command: each subcommand parses, makes one library call and prints."""
