"""Tables: arrays of one length as columns, queried by expressions."""
