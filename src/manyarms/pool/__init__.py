"""The candidates: arms identified by index and by the user's ids, from arrays, frames and files."""
