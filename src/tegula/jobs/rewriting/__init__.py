"""Rewriting: arrays that get other formats, chunks, codecs or values, unit by unit and in bounded memory."""
