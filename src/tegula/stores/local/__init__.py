"""Files below a directory."""
