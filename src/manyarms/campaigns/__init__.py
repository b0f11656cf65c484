"""Campaigns: searches on the user's own table that are kept in a database and survive any process."""
