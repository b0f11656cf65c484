"""Durable searches on the user's own table: stored, resumable, reported."""
