"""Where a campaign is kept: its tables, transactions and statements, in SQLite or PostgreSQL."""
