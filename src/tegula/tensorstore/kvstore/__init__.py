"""Key-value stores, and the transactions that change several keys."""
