"""Which arms to choose and when a batch ends: selection and stopping rules, widths, Thompson draws."""
