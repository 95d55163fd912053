"""``bcolz.chunked_eval``: expressions over carrays."""

from tegula.bcolz.evaluating.expressions import eval

__all__ = ["eval"]
