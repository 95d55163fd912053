"""The display of nodes: facts, trees, drawings of chunk grids, HTML. It knows metadata, but no stores."""
