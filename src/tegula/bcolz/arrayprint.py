"""``bcolz.arrayprint``: text of arrays, and its options."""

from tegula.bcolz.printing import array2string, get_printoptions, set_printoptions

__all__ = ["array2string", "get_printoptions", "set_printoptions"]
