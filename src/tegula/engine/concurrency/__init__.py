"""Thread pools, retries and reservations."""
