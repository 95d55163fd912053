"""The engine ``"tegula"`` of xarray. xarray imports this module for every data set it opens, so it imports little."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xarray import DataTree
from xarray.backends import BackendEntrypoint, StoreBackendEntrypoint

from tegula.runtime.deferred import Later
from tegula.xarray.guessing import can_open

if TYPE_CHECKING:
    import xarray as xr

    from tegula.arrays import keywords
    from tegula.xarray import opening
else:
    keywords = Later("tegula.arrays.keywords")
    opening = Later("tegula.xarray.opening")

__all__ = ["TegulaBackendEntrypoint"]

Dims = Mapping[str, Sequence[str]] | Sequence[str] | None


class TegulaBackendEntrypoint(BackendEntrypoint):
    """The engine ``"tegula"``: Zarr v1, v2 and v3 and bcolz as data sets of xarray.

    The functions of xarray pass on the options of `open_dataset`: ``xr.open_dataset(x, engine="tegula",
    group="model")``.
    """

    description = "Open Zarr v1, v2, v3 and bcolz, local or in object storage, with tegula"
    supports_groups = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether to open a target without a named engine: only what the engine ``zarr`` can't open."""
        return can_open(filename_or_obj)

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        dims: Dims = None,
        consolidated: bool | None = None,
        format: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        allow_pickle: bool = False,
        missing_chunks: str | None = None,
    ) -> xr.Dataset:
        """Open one group, table or array as a data set.

        The options for decoding, from ``mask_and_scale`` to ``decode_timedelta``, are those of `xarray.open_dataset`.

        Parameters
        ----------
        filename_or_obj : str, path, mapping, Store, Array, Group or Table
            What to open; a table is a data set along the dimension ``row``, a single array the variable ``data``.
        group : str, optional
            Path of a group, array or table in it.
        dims : mapping of str to sequence of str, or sequence of str, optional
            Names of the dimensions of some variables; or one list of names for all arrays that have none of their own
            and as many axes. Other axes without a name are called ``dim_0``, ``dim_1``, …; ``<variable>_dim_0`` where
            arrays of different lengths would share the name.
        consolidated : bool, optional
            ``True`` takes the metadata from the consolidated copy, ``False`` from the documents themselves; by default
            from the documents, unless the storage can't be listed.
        format : str, optional
            Opens nodes of this format only; see `tegula.open`.
        storage_options : mapping, optional
            Settings of the storage, if a URL is given; see `tegula.store_of`.
        use_zarr_fill_value_as_mask : bool, optional
            Whether elements equal to the fill value are missing; by default in Zarr v2 only. In v3 the attribute
            ``_FillValue`` marks them.
        allow_pickle : bool
            Allow unpickling of chunks, which can run any code.
        missing_chunks : {"fill", "error"}, optional
            What reads of chunks that are not stored give; see `tegula.open`.
        """
        how = storage_options, use_zarr_fill_value_as_mask, allow_pickle, missing_chunks
        opener = opening.Opener(dims, consolidated, format, *how, drop_variables)
        return _decoded(
            opener.open(filename_or_obj, group),
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )

    def open_groups_as_dict(
        self, filename_or_obj: Any, *, group: str | None = None, **options: Any
    ) -> dict[str, xr.Dataset]:
        """Open a group and all groups and tables below it, by path, with the options of `open_dataset`.

        See `xarray.open_groups`.
        """
        self._check("open_groups_as_dict", options)
        opener, decoding = opening.opener_of(options)
        found = opener.open_all(filename_or_obj, group)
        return {path: _decoded(store, **decoding) for path, store in found.items()}

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xr.DataTree:
        """Open a group and all groups and tables below it as a tree; see `xarray.open_datatree`."""
        self._check("open_datatree", options)
        found = self.open_groups_as_dict(filename_or_obj, **options)
        tree = DataTree.from_dict(found)
        for path, dataset in found.items():
            tree[path].set_close(dataset._close)
        return tree

    def _check(self, function: str, options: Mapping[str, Any]) -> None:
        """Refuse what is no option of `open_dataset`, before anything is opened."""
        known = self.open_dataset.__kwdefaults__ or ()
        keywords.check_keywords(f"{type(self).__name__}.{function}", options, known)


def _decoded(store: Any, **options: Any) -> xr.Dataset:
    """Decode a data store by xarray's own conventions, and close it after an error."""
    try:
        return StoreBackendEntrypoint().open_dataset(store, **options)
    except BaseException:
        store.close()
        raise
