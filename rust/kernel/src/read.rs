//! Reading: a plan carried out.
