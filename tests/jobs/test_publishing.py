"""Arrays whose chunks are written before their documents."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from tegula import LocalStore, config
from tegula.arrays.creation import array_metadata
from tegula.engine.nodes.creating import read_back
from tegula.formats import find_format
from tegula.jobs.ledger import Ledger
from tegula.jobs.publishing import Destination
from tegula.metadata.data_types import as_data_type


def test_a_worker_lets_the_kernel_write_an_array_that_has_no_documents_yet(kernel: Any, tmp_path: Path) -> None:
    for name in ("zarr3", "zarr2"):
        store, item = LocalStore(tmp_path / name), find_format(name)
        draft = item.adapt(array_metadata(item, (4, 6), as_data_type("i4"), (2, 3), codecs=None))
        metadata = read_back(item, draft, "")
        with Ledger(store, "").claimed():
            destination = pickle.loads(pickle.dumps(Destination(store, "", {**metadata.documents}, name, {}, False)))
            array = destination.open()
            with config.configure(executor="kernel"):
                array[...] = np.arange(24).reshape(4, 6)
        assert array.stored.kernel is not None
        assert array.stored.amount_stored()[0] == 4
