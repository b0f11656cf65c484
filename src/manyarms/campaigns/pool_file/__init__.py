"""The user's own table of candidates, as a campaign refers to it."""
