//! What an array is, as far as its bytes go.
