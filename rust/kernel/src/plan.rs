//! What a selection touches, chunk by chunk.
