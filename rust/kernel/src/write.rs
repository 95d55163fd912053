//! Writing: a plan carried out.
