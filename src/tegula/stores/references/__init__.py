"""Reference files of kerchunk and VirtualiZarr: keys that stand for byte ranges of other files."""
