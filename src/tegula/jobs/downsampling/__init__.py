"""Multi-scale pyramids: arrays of fewer and fewer elements, level from level."""
