//! Text and bytes of any length: `vlen-utf8`, `vlen-bytes`.
