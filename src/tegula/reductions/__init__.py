"""Reductions: computations on arrays of values, which know nothing of stores and jobs.

Sums for checksums, moments for statistics, the blocks of pyramids, the errors of a reduced precision, and equality. The
results of parts merge into those of the whole.

>>> import numpy as np
>>> from tegula.reductions.moments import measure
>>> measure(np.array([1.0, 2.0])).merge(measure(np.array([6.0]))).average
3.0
"""
