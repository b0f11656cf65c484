"""The storage of a campaign in SQLite or PostgreSQL: tables, transactions and statements."""
