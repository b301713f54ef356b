"""What a user does, what it costs, and what they would use instead: one table, a case of its own for each row."""
