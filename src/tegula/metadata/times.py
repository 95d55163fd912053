"""Times as CF has them: numbers of days, hours, … since a date, or durations.

Dates of the Gregorian calendars become ``datetime64``; those of other calendars, in which a year may have 360 days,
have no such type and stay numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tegula.errors import UnsupportedError

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Recount", "TimeUnits", "common_units", "time_units"]

_NANOSECONDS: Final = {
    "nanosecond": 1,
    "microsecond": 1000,
    "millisecond": 10**6,
    "second": 10**9,
    "minute": 60 * 10**9,
    "hour": 3600 * 10**9,
    "day": 86400 * 10**9,
}
_LENGTHS: Final = {"D": 86400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_DATE: Final = re.compile(
    r"\s*(\d{1,4})-(\d{1,2})-(\d{1,2})(?:[T\s]+(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9})\d*)?)?)?"
    r"\s*(?:Z|UTC|GMT|([+-])(\d{1,2}):?(\d{2})?)?\s*"
)
_REFORM: Final = np.datetime64("1582-10-15")
_JULIAN_DAY_OF_1970: Final = 2440588
_CALENDARS: Final = {"gregorian": "standard", "365_day": "noleap", "366_day": "all_leap"}  # other names
_MONTHS: Final = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)  # days of a year before each
_MOST: Final = 2**63 - 2**12  # ticks that NumPy holds, less the error of floating-point numbers


@dataclass(frozen=True, slots=True)
class TimeUnits:
    """The meaning of numbers that are times: their unit, and the date from which they count.

    Parameters
    ----------
    nanoseconds : int
        Length of the unit.
    reference : numpy.datetime64, optional
        The date to which the number zero belongs; ``None`` for durations.
    calendar : str
        Name of the calendar, in lower case.
    """

    nanoseconds: int
    reference: np.datetime64 | None
    calendar: str = "standard"

    @property
    def is_known(self) -> bool:
        """Whether NumPy has a type for these times."""
        return self.reference is None or self.calendar in ("standard", "gregorian", "proleptic_gregorian")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of decoded times: of nanoseconds if these are the unit, else of microseconds, for 290,000 years."""
        return np.dtype(f"{'m' if self.reference is None else 'M'}8[{'ns' if self.nanoseconds == 1 else 'us'}]")

    @property
    def coarsest(self) -> np.dtype[Any]:
        """The type with the longest unit that has all times of whole numbers: days, minutes or parts of a second.

        Examples
        --------
        >>> time_units({"units": "hours since 2000-01-01"}).coarsest, TimeUnits(3600 * 10**9, None).coarsest
        (dtype('<M8[m]'), dtype('<m8[h]'))
        """
        reference = np.datetime64(0, "us") if self.reference is None else self.reference
        start = int(reference.astype(f"M8[{'ns' if self.nanoseconds == 1 else 'us'}]").astype("i8"))
        start *= 1 if self.nanoseconds == 1 else 1000
        fits = [unit for unit, length in _LENGTHS.items() if not (self.nanoseconds % length or start % length)]
        if self.reference is None:
            return np.dtype(f"m8[{fits[0]}]")
        return np.dtype(f"M8[{fits[0] if fits[0] != 'h' else 'm'}]")  # the text of a date has no hours without minutes

    def decode(self, values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[Any]:
        """Return numbers as times.

        Parameters
        ----------
        values : ndarray of numbers
            The numbers, in a known calendar (`is_known`); NaN stands for a missing time.
        missing : ndarray of bool, optional
            Which others are missing.

        Returns
        -------
        ndarray of datetime64 or timedelta64
            The times, rounded to the unit of `dtype`.

        Raises
        ------
        UnsupportedError
            If a time is out of range, or before the Gregorian reform in a calendar that has it.

        Examples
        --------
        >>> time_units({"units": "hours since 2000-01-01"}).decode(np.array([0, 36]))
        array(['2000-01-01T00:00:00.000000', '2000-01-02T12:00:00.000000'],
              dtype='datetime64[us]')
        """
        is_missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
        is_missing = is_missing if missing is None else is_missing | missing
        known = np.where(is_missing, np.zeros((), values.dtype), values)
        per_tick = 1 if self.nanoseconds == 1 else 1000
        first = (
            0
            if self.reference is None
            else int(self.reference.astype("M8[ns]" if per_tick == 1 else "M8[us]").astype("i8"))
        )
        # whole units and parts of them, as ticks of the type
        integers = np.floor(known) if known.dtype.kind == "f" else known
        most = max((abs(int(end)) for end in (integers.min(), integers.max())), default=0) if integers.size else 0
        if most * self.nanoseconds // per_tick + abs(first) >= _MOST:
            raise UnsupportedError("a time is out of range; read the numbers as they are stored")
        ticks = (
            integers.astype("i8") * self.nanoseconds // per_tick
            if self.nanoseconds < per_tick
            else (integers.astype("i8") * (self.nanoseconds // per_tick))
        )
        if known.dtype.kind == "f":
            ticks += np.rint((known.astype("f8") - integers) * (self.nanoseconds / per_tick)).astype("i8")
        dates = (ticks + first).astype(self.dtype)
        # dates before the reform are those of the Julian calendar, which NumPy does not know; nanoseconds begin later
        if self.reference is not None and self.calendar != "proleptic_gregorian" and per_tick > 1:
            known_dates = dates[~is_missing]
            if known_dates.size and known_dates.min() < _REFORM:
                raise UnsupportedError(
                    f"a date is before the Gregorian reform in the calendar {self.calendar!r:.40}; read the numbers as "
                    "they are stored"
                )
        dates[is_missing] = "NaT"
        return dates


def time_units(attributes: Mapping[str, Any]) -> TimeUnits | None:
    """Return what attributes say about times; ``None`` if values are no times.

    Examples
    --------
    >>> time_units({"units": "days since 2000-1-1 06:00"}).reference
    np.datetime64('2000-01-01T06:00:00.000000')
    >>> time_units({"units": "days"}) is None
    True
    """
    units, calendar = attributes.get("units"), attributes.get("calendar", "standard")
    if not isinstance(units, str) or not isinstance(calendar, str):
        return None
    unit, since, date = units.partition(" since ")
    length = _NANOSECONDS.get(unit.strip().lower().removesuffix("s"))
    if not since:
        dtype = attributes.get("dtype")
        is_duration = length is not None and isinstance(dtype, str) and dtype.startswith("timedelta64")
        return TimeUnits(length, None) if is_duration and length is not None else None
    calendar = calendar.lower()
    reference = _date(date, is_julian=calendar in ("standard", "gregorian"))
    return None if length is None or reference is None else TimeUnits(length, reference, calendar)


class Recount(NamedTuple):
    """How numbers of one unit and date are those of others: ``number * factor + shift``."""

    factor: int
    shift: int

    def of(self, values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None) -> npt.NDArray[Any]:
        """Return numbers in the other unit, missing ones as they are; in 64 bits if others do not hold them.

        Raises
        ------
        UnsupportedError
            If 64 bits do not hold them.

        Examples
        --------
        >>> Recount(24, 36).of(np.array([0, 1, -99], "i2"), np.array([False, False, True]))
        array([ 36,  60, -99], dtype=int16)
        """
        if self == (1, 0):
            return values
        dtype = values.dtype
        if dtype.kind in "iu":
            known = values if missing is None else values[~missing]
            ends = [int(end) * self.factor + self.shift for end in (known.min(), known.max())] if known.size else [0]
            if not _holds(dtype, ends):
                dtype = np.dtype("i8")
            if not _holds(dtype, ends):
                raise UnsupportedError("a time is out of range in the units of other times")
        changed = (values.astype("f8" if dtype.kind == "f" else "i8") * self.factor + self.shift).astype(dtype)
        return changed if missing is None else np.where(missing, values.astype(dtype), changed)


def _holds(dtype: np.dtype[Any], ends: Sequence[int]) -> bool:
    limits = np.iinfo(dtype)
    return all(limits.min <= end <= limits.max for end in ends)


def common_units(attributes: Sequence[Mapping[str, Any]]) -> tuple[str, list[Recount]] | None:
    """Return units in which times of several are whole numbers, counted from the date of the first.

    Parameters
    ----------
    attributes : sequence of mapping
        The attributes ``units`` and ``calendar`` of each.

    Returns
    -------
    tuple of str and list of Recount, or None
        The units, and how the numbers of each become numbers of these. ``None`` if they are no dates of one calendar.

    Examples
    --------
    >>> common_units([{"units": "days since 2024-01-01"}, {"units": "hours since 2024-02-01"}])
    ('hours since 2024-01-01', [Recount(factor=24, shift=0), Recount(factor=1, shift=744)])
    """
    found = [_counting(one) for one in attributes]
    known = [one for one in found if one is not None]
    if len(known) < len(found) or len({calendar for *_, calendar in known}) != 1:
        return None
    begins = [begin - known[0][1] for _, begin, _ in known]
    step = gcd(*(length for length, *_ in known), *begins)
    unit, length = max((pair for pair in _NANOSECONDS.items() if step % pair[1] == 0), key=lambda pair: pair[1])
    units: str = attributes[0]["units"]
    if length != known[0][0]:
        units = f"{unit}s since {units.partition(' since ')[2]}"
    return units, [Recount(one[0] // length, begin // length) for one, begin in zip(known, begins)]


def _counting(attributes: Mapping[str, Any]) -> tuple[int, int, str] | None:
    """Return the length of a unit, the date from which it counts, in nanoseconds of a calendar, and the calendar."""
    units, calendar = attributes.get("units"), attributes.get("calendar", "standard")
    if not isinstance(units, str) or not isinstance(calendar, str):
        return None
    unit, _, text = units.partition(" since ")
    length = _NANOSECONDS.get(unit.strip().lower().removesuffix("s"))
    calendar = _CALENDARS.get(calendar.lower(), calendar.lower())
    begin = _nanoseconds(text, calendar)
    return None if length is None or begin is None else (length, begin, calendar)


def _date(text: str, *, is_julian: bool) -> np.datetime64 | None:
    """Read a date, which before the Gregorian reform is one of the Julian calendar if the calendar is mixed."""
    nanoseconds = _nanoseconds(text, "standard" if is_julian else "proleptic_gregorian")
    if nanoseconds is None:
        return None
    seconds, fraction = divmod(nanoseconds, 10**9)
    date = np.datetime64(seconds, "s")
    return (
        date + np.timedelta64(fraction // 1000, "us") if fraction % 1000 == 0 else date + np.timedelta64(fraction, "ns")
    )


def _nanoseconds(text: str, calendar: str) -> int | None:
    """Return the nanoseconds from a day of a calendar, which is 1970-01-01 in Gregorian ones, to a date and time."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day = (int(item) for item in match.groups()[:3])
    hour, minute, second = (int(item or 0) for item in match.groups()[3:6])
    days = _days(year, month, day, calendar) if 1 <= month <= 12 and 1 <= day <= 31 else None
    if days is None or hour > 24 or minute > 59 or second > 60:
        return None
    shift = (int(match[9]) * 60 + int(match[10] or 0)) * (1 if match[8] == "+" else -1) if match[8] else 0
    seconds = days * 86400 + (hour * 60 + minute - shift) * 60 + second
    return seconds * 10**9 + int((match[7] or "").ljust(9, "0"))


def _days(year: int, month: int, day: int, calendar: str) -> int | None:
    """Return the number of a day in a calendar; ``None`` if it has no such day, or is not known."""
    if calendar == "360_day":
        return year * 360 + (month - 1) * 30 + day if day <= 30 else None
    if calendar in ("noleap", "all_leap"):
        leap = calendar == "all_leap"
        return year * (365 + leap) + _MONTHS[month - 1] + (leap and month > 2) + day
    if calendar == "julian" or (calendar == "standard" and (year, month, day) < (1582, 10, 15)):
        return _julian_day(year, month, day) - _JULIAN_DAY_OF_1970
    if calendar not in ("standard", "proleptic_gregorian"):
        return None
    try:
        return int(np.datetime64(f"{year:04}-{month:02}-{day:02}", "D").astype("i8"))
    except ValueError:
        return None


def _julian_day(year: int, month: int, day: int) -> int:
    """Return the number of a day of the Julian calendar in the count of astronomers."""
    shift = (14 - month) // 12
    year, month = year + 4800 - shift, month + 12 * shift - 3
    return day + (153 * month + 2) // 5 + 365 * year + year // 4 - 32083
