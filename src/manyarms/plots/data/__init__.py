"""The numbers behind each chart, computed without drawing anything."""
