"""Write the data sets in ``examples/legacy``, with the libraries that defined the formats.

The data are invented: hourly readings of eight weather stations through March 2016, and a grid of snow depths around
them. Run it once with an interpreter that has zarr 1.1.0 and once with one that has zarr 2.18.7::

    python3.7 generate_zarr.py    # numpy 1.19.5, zarr 1.1.0 (built with Cython<3, setuptools<58)
    python3.11 generate_zarr.py   # numpy 2.4.6, numcodecs 0.15.2, zarr 2.18.7

The last one to run also writes ``expected.npz``, the values that a reader must return.
"""

import os
import shutil

import numpy as np
import zarr

if not zarr.__version__.startswith("1."):  # which has codecs of its own
    import numcodecs

LEGACY = os.path.dirname(os.path.abspath(__file__))
HOURS, STATIONS = 744, 8
NAMES = ["Åkerby", "Brännvik", "Dalsjön", "Fjällnäs", "Högbo", "Östra Mo", "Sandö", "Ytterån"]


def readings():
    """The station readings, by path in the group."""
    random = np.random.RandomState(2016)
    hours = np.arange(HOURS)
    time = np.datetime64("2016-03-01T00:00:00", "s") + hours.astype("m8[h]")
    day = np.sin(2 * np.pi * (hours - 9) / 24)[:, None]
    height = np.array([12, 40, 310, 742, 55, 188, 3, 267], "<i2")
    warm = -4 + 0.012 * hours[:, None] + 3.5 * day - 0.0065 * height + random.normal(0, 0.8, (HOURS, STATIONS))
    temperature = np.round(warm, 1).astype("<f4")
    temperature[400:430, 3] = np.nan  # the sensor was iced over
    steps = np.cumsum(random.randint(-12, 13, (HOURS, STATIONS)), axis=0)
    pressure = (101300 - 12 * height.astype("i4") + steps).astype("<i4")
    position = np.zeros(STATIONS, [("latitude", "<f8"), ("longitude", "<f8"), ("height", "<i2"), ("code", "S4")])
    position["latitude"] = np.round(random.uniform(61.5, 63.5, STATIONS), 4)
    position["longitude"] = np.round(random.uniform(13.0, 17.0, STATIONS), 4)
    position["height"] = height
    position["code"] = ["AK01", "BR02", "DA03", "FJ04", "HO05", "OM06", "SA07", "YT08"]
    return {
        "time": time.astype("<M8[s]"),
        "temperature": temperature,
        "pressure": pressure,
        "wet": random.uniform(size=(HOURS, STATIONS)) < 0.2,
        "station/name": np.array(NAMES, object),
        "station/position": position,
    }


def snow():
    """The snow depths, by name of the array."""
    day = np.datetime64("2016-03-01", "D") + np.arange(31)
    y, x = np.mgrid[0:40, 0:56]
    hills = 40 + 25 * np.sin(x / 9.0) * np.cos(y / 7.0)
    depth = hills[None] - 1.1 * np.arange(31)[:, None, None] + 3 * np.cos(np.arange(31) / 4.0)[:, None, None]
    depth = np.round(depth, 0).astype("<f4")
    depth[24:] = np.nan  # not measured: these chunks were never written
    return {"day": day.astype("<M8[D]"), "depth": depth}


def new_directory(path):
    """Return a store in a new directory, which zarr 1 does not make."""
    os.makedirs(path)
    return zarr.DirectoryStore(path)


def write_zarr1():
    """Zarr v1 has no groups: each array is a directory of its own."""
    root = os.path.join(LEGACY, "snow.zarr1")
    shutil.rmtree(root, ignore_errors=True)
    values = snow()
    store = new_directory(os.path.join(root, "day"))
    zarr.init_store(store, shape=31, chunks=31, dtype="<M8[D]", compression="bz2", compression_opts=9, fill_value=0)
    day = zarr.Array(store)
    day[:] = values["day"]
    day.attrs["long_name"] = "day of the measurement"
    store = new_directory(os.path.join(root, "depth"))
    blosc = {"compression": "blosc", "compression_opts": {"cname": "lz4", "clevel": 7, "shuffle": 1}}
    zarr.init_store(
        store, shape=(31, 40, 56), chunks=(8, 20, 56), dtype="<f4", fill_value=float("nan"), order="F", **blosc
    )
    depth = zarr.Array(store)
    depth[:24] = values["depth"][:24]
    depth.attrs["units"] = "cm"
    depth.attrs["_ARRAY_DIMENSIONS"] = ["day", "y", "x"]


def write_zarr2():
    """A consolidated group, each array with other filters and another compressor."""
    root = os.path.join(LEGACY, "stations.zarr2")
    shutil.rmtree(root, ignore_errors=True)
    group = zarr.open_group(zarr.DirectoryStore(root), mode="w")
    group.attrs.update(
        {"title": "Hourly readings of eight invented weather stations", "Conventions": "CF-1.8", "year": 2016}
    )
    group.create_group("station")
    per_station = {"_ARRAY_DIMENSIONS": ["time", "station"]}
    nested = {"dimension_separator": "/"}
    options = {
        "time": {"chunks": 248, "compressor": numcodecs.Zlib(5), "filters": [numcodecs.Delta("<i8")]},
        "temperature": {
            "chunks": (248, 4),
            "compressor": numcodecs.Blosc("zstd", 5, 1),
            "fill_value": np.nan,
            **nested,
        },
        "pressure": {
            "chunks": (248, 8),
            "compressor": numcodecs.Zlib(9),
            "filters": [numcodecs.Delta("<i4")],
            **nested,
        },
        "wet": {"chunks": (372, 8), "compressor": None, "filters": [numcodecs.PackBits()], "fill_value": False},
        "station/name": {
            "chunks": 8,
            "compressor": numcodecs.Zstd(3),
            "object_codec": numcodecs.VLenUTF8(),
            "fill_value": "",
        },
        "station/position": {"chunks": 8, "compressor": numcodecs.Zstd(9), "fill_value": None},
    }
    attributes = {
        "time": {"_ARRAY_DIMENSIONS": ["time"], "long_name": "time (UTC)"},
        "temperature": {**per_station, "units": "degC"},
        "pressure": {**per_station, "units": "Pa", "valid_range": [87000, 108400]},
        "wet": {**per_station, "long_name": "rain or snow in the last hour"},
        "station/name": {"_ARRAY_DIMENSIONS": ["station"]},
        "station/position": {"_ARRAY_DIMENSIONS": ["station"], "datum": "WGS 84"},
    }
    for path, values in readings().items():
        array = group.create_dataset(path, shape=values.shape, dtype=values.dtype, **options[path])
        array[...] = values
        array.attrs.update(attributes[path])
    zarr.consolidate_metadata(root)


def write_expected():
    """Objects are stored as NumPy text, which needs no pickle."""
    values = {f"snow.zarr1/{name}": array for name, array in snow().items()}
    values.update({f"stations.zarr2/{name}": array for name, array in readings().items()})
    values = {name: array.astype("U") if array.dtype.hasobject else array for name, array in values.items()}
    np.savez_compressed(os.path.join(LEGACY, "expected.npz"), **values)


if __name__ == "__main__":
    if zarr.__version__.startswith("1."):
        write_zarr1()
    else:
        write_zarr2()
    write_expected()
