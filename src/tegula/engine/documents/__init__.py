"""The metadata documents of nodes, and finding nodes."""
