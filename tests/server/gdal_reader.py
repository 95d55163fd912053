"""Read arrays by GDAL's Zarr driver: URLs come by standard input, a line of JSON for each goes to standard output."""

import base64
import json
import sys
import warnings


def main() -> None:
    import rasterio  # noqa: PLC0415 - which only the Python that runs this has

    warnings.simplefilter("ignore")  # arrays that are not maps have no georeference
    for url in json.load(sys.stdin):
        try:
            with rasterio.open(f'ZARR:"/vsicurl/{url}"') as opened:
                values = opened.read(1)
            raw = base64.b64encode(values.tobytes()).decode()
            print(json.dumps({"url": url, "shape": values.shape, "dtype": str(values.dtype), "values": raw}))
        except rasterio.errors.RasterioError as error:
            print(json.dumps({"url": url, "error": str(error)}))


if __name__ == "__main__":
    main()
