"""What every room needs and none owns: input checks, linear algebra, random streams, growing arrays."""
