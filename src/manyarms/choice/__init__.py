"""Which arm next, and when a batch ends: selection, confidence widths, stopping rules, Thompson draws."""
