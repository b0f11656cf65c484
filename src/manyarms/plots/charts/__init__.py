"""The drawing of each chart with Altair; `plots/data/` has the numbers."""
