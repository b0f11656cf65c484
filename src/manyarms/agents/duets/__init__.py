"""DUETS: uniform exploration of a trimmed set, with one short exchange per epoch."""
