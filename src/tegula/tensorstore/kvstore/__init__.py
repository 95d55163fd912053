"""Key-value stores, and transactions over several keys."""
