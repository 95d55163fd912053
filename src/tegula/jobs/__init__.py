"""Jobs: operations on whole arrays and hierarchies, carried out in units of bounded memory."""
