"""Multi-scale pyramids: arrays of fewer and fewer elements, each computed from the one before."""
