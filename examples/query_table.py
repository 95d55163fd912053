"""Query a table that bcolz has written, group its rows with pandas, and add rows and a column to a copy in Zarr v3.

Run it from the clone, as often as you like; it needs the extra ``tables``::

    python examples/query_table.py [FOLDER]

It writes to ``example-output`` unless told otherwise, and prints::

    1563 rows of open, high, low, close, volume, day, id
    99 days with a rise of more than 1.2 percent, first on 2015-01-07
          days  highest      volume
    id
    24     521   114392  2721170000
    3149   521    33146  2639830000
    5061   521    66452  2510330000
    1566 rows of open, high, low, close, volume, day, id, change; 64 with a large change
"""

import sys
from pathlib import Path

import tegula

PRICES = Path(__file__).resolve().parent / "legacy" / "prices.bcolz"


def main(folder: Path) -> None:
    """Answer three questions about the prices of shares, and continue the table in another format."""
    prices = tegula.open_table(PRICES)
    print(f"{len(prices)} rows of {', '.join(prices.names)}")

    # only the columns of the condition are read in full, of the others only the rows that match
    rises = prices.where("close > 1.012 * open", columns=["id", "day", "open", "close"])
    first = rises["day"].min().astype("M8[s]").astype("M8[D]")
    print(f"{len(rises)} days with a rise of more than 1.2 percent, first on {first}")

    frame = prices.to_pandas(["id", "close", "volume"])
    print(frame.groupby("id").agg(days=("close", "size"), highest=("close", "max"), volume=("volume", "sum")))

    # the table becomes a group of Zarr arrays, one for each column
    tegula.convert(PRICES, folder / "shares.zarr", verify=True, overwrite=True)
    shares = tegula.open_table(folder / "shares.zarr", mode="r+")
    shares.append(prices[-3:])  # all columns grow, or none
    shares.add_column("change", shares["close"][:].astype("i8") - shares["open"][:])
    large = shares.where("abs(change) > 480", columns=["id", "change"])
    print(f"{len(shares)} rows of {', '.join(shares.names)}; {len(large)} with a large change")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "example-output"))
