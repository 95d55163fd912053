//! Files below a directory.
