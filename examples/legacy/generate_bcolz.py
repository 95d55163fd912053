"""Write the bcolz data in ``examples/legacy``, with bcolz-zipline 1.13.0 and numpy 2.4.6.

The data are invented: the daily prices of three shares through 2015 and 2016, laid out as zipline lays out its bundles
(a ctable; prices in thousandths), and the wind over a grid of places, every hour of four days (a carray of three
dimensions, rounded to a tenth as it was compressed). Run it after ``generate_zarr.py``: it adds the values that a
reader must return to ``expected.npz``::

    python3.11 generate_bcolz.py
"""

import os
import shutil

import bcolz
import numpy as np

LEGACY = os.path.dirname(os.path.abspath(__file__))
SIDS = (24, 3149, 5061)


def prices():
    """The columns, in order, and the attributes of the table."""
    random = np.random.RandomState(2015)
    days = np.arange("2015-01-02", "2017-01-01", dtype="M8[D]")
    days = days[np.is_busday(days)]
    count = len(days)
    shape = (len(SIDS), count)
    close = np.array([[109_330], [25_060], [46_760]]) + random.randint(-900, 910, shape).cumsum(axis=1)
    opening = close - random.randint(-500, 501, shape)
    columns = {
        "open": opening,
        "high": np.maximum(opening, close) + random.randint(0, 600, shape),
        "low": np.minimum(opening, close) - random.randint(0, 600, shape),
        "close": close,
        "volume": random.randint(100, 900, shape) * 10_000,
        "day": np.broadcast_to(days.astype("M8[s]").astype("i8"), shape),
        "id": np.repeat(SIDS, count).reshape(shape),
    }
    columns["volume"][1, 300:303] = 0  # trade in it was halted
    for name in ("open", "high", "low", "close"):
        columns[name][1, 300:303] = 0
    attributes = {
        "first_trading_day": int(days[0].astype("M8[s]").astype("i8")),
        "first_row": {str(sid): number * count for number, sid in enumerate(SIDS)},
        "last_row": {str(sid): number * count + count - 1 for number, sid in enumerate(SIDS)},
        "calendar_offset": {str(sid): 0 for sid in SIDS},
        "calendar_name": "NYSE",
        "title": "Daily prices of three invented shares",
    }
    return {name: values.astype("u4").ravel() for name, values in columns.items()}, attributes


def wind():
    """Speed in m/s by hour, row and column of a grid."""
    hour, y, x = np.mgrid[0:96, 0:12, 0:16]
    speed = 6 + 3 * np.sin(hour / 9.0 + x / 5.0) + 2 * np.cos(y / 4.0 - hour / 15.0) + 0.02 * hour
    return speed.astype("<f4")


def new(name):
    """Return the path of a directory that does not exist any more."""
    path = os.path.join(LEGACY, name)
    shutil.rmtree(path, ignore_errors=True)
    return path


def main():
    """Write both, open them again, and note down what is in them."""
    bcolz.blosc_set_nthreads(1)
    path = new("prices.bcolz")
    columns, attributes = prices()
    options = {"chunklen": 600, "cparams": bcolz.cparams(cname="zlib", clevel=9)}
    table = bcolz.ctable([*columns.values()], names=[*columns], rootdir=path, **options)
    for name, value in attributes.items():
        table.attrs[name] = value
    table["day"].attrs["units"] = "seconds since 1970-01-01"
    table.flush()
    table = bcolz.ctable(rootdir=path, mode="r")
    values = {f"prices.bcolz/{name}": table[name][:] for name in table.names}

    path = new("wind.bcolz")
    cparams = bcolz.cparams(cname="zstd", clevel=9, shuffle=bcolz.BITSHUFFLE, quantize=1)
    array = bcolz.carray(wind(), rootdir=path, chunklen=40, dflt=float("nan"), cparams=cparams)
    array.attrs["units"] = "m/s"
    array.flush()
    values["wind.bcolz"] = bcolz.carray(rootdir=path, mode="r")[:]

    expected = os.path.join(LEGACY, "expected.npz")
    with np.load(expected) as archive:
        values = {**{name: archive[name] for name in archive.files}, **values}
    np.savez_compressed(expected, **values)


if __name__ == "__main__":
    main()
