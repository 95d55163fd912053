"""Zip archives as key-value stores."""

from pathlib import Path

import pytest
import tensorstore

from tegula.tensorstore.kvstore.kvstore import KvStore

pytestmark = pytest.mark.once(executors="none")


def test_both_libraries_use_the_same_archive(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/a.zip|zip:"
    own, other = KvStore.open(url).result(), tensorstore.KvStore.open(url).result()
    for number in range(3):
        own[f"own/{number}"] = b"x" * number
        other[f"other/{number}"] = b"y" * number
    assert own.list().result() == sorted(other.list().result())
    del own["other/1"]
    del other["own/1"]
    assert {key: own[key] for key in own.list().result()} == {key: other[key] for key in other.list().result()}
    assert repr(own) == repr(other)
    for spec in ("memory://a|zip:", {"driver": "zip", "base": f"file://{tmp_path}/b.zip", "compression": "zstd"}):
        with pytest.raises(NotImplementedError):
            KvStore.open(spec).result().list().result()
