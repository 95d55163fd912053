"""Arrays: the node with elements, its attributes, and the description of a new one."""
