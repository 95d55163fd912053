"""Creating, opening, changing, replacing and deleting nodes."""
