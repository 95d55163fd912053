"""``bcolz.chunked_eval``: expressions over carrays."""

from tegula.bcolz.evaluation import eval

__all__ = ["eval"]
