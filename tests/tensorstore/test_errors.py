"""Statuses: their classes and texts, and the conversion of other errors."""

import copy
import pickle

import pytest

from tegula import errors as lower
from tegula.tensorstore.errors import StatusError, annotate, as_status, index_error, status, type_error


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        ("INVALID_ARGUMENT", ValueError, "no"),
        ("UNIMPLEMENTED", NotImplementedError, "no"),
        ("NOT_FOUND", ValueError, "NOT_FOUND: no"),
        ("OUT_OF_RANGE", ValueError, "OUT_OF_RANGE: no"),
    ],
)
def test_a_status_is_an_error_of_both_libraries(code: str, kind: type[Exception], text: str) -> None:
    error = status(code, "no")
    assert isinstance(error, (kind, lower.TegulaError))
    assert isinstance(error, kind)
    assert (str(error), error.code, error.sentence) == (text, code, "no")
    outer = annotate(error, "Opening")
    assert type(outer) is type(error)
    assert (str(outer), outer.code) == (text.replace("no", "Opening: no"), code)
    for same in (pickle.loads(pickle.dumps(outer)), copy.copy(outer)):
        assert (type(same), str(same), same.code) == (type(outer), str(outer), code)


def test_other_classes() -> None:
    assert isinstance(index_error("no"), IndexError)
    assert str(index_error("no", "OUT_OF_RANGE")) == "OUT_OF_RANGE: no"
    assert isinstance(type_error("no"), TypeError)
    assert isinstance(annotate(index_error("no"), "here"), IndexError)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (lower.NotFoundError("nothing there"), "NOT_FOUND: nothing there"),
        (lower.AlreadyExistsError("there already"), "ALREADY_EXISTS: there already"),
        (lower.ConflictError("changed"), "ABORTED: changed"),
        (lower.UnsupportedError("can't"), "can't"),
        (lower.SelectionError("outside"), "OUT_OF_RANGE: outside"),
        (lower.MetadataError("wrong", field="dtype"), "wrong (field 'dtype')"),
        (lower.StoreError("disk"), "FAILED_PRECONDITION: disk"),
        (PermissionError("not you"), "PERMISSION_DENIED: not you"),
        (KeyError("k"), "k"),
        (ValueError("bad"), "bad"),
    ],
)
def test_errors_of_lower_floors(error: Exception, text: str) -> None:
    created = as_status(error)
    assert str(created) == text
    assert isinstance(created, StatusError)
    assert as_status(created) is created
