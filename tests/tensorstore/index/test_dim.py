"""Dimensions and domains: constructors, JSON, texts and set operations as in TensorStore."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import tensorstore as real
from hypothesis import given
from hypothesis import strategies as st
from tests.tensorstore.recorded_errors import kind_and_code

from tegula.tensorstore.index.dim import Dim, inf
from tegula.tensorstore.index.domain import IndexDomain, merge_domains

pytestmark = pytest.mark.once(executors="none")

bounds = st.one_of(st.integers(-4, 6), st.sampled_from([None, -inf, inf, inf + 1, -inf - 1, 2**63 - 1]))
flags = st.sampled_from([None, True, False])
labels = st.sampled_from([None, "", "x", 'a"b'])


@st.composite
def arguments(draw: Any) -> dict[str, Any]:
    names = draw(
        st.sampled_from(
            [
                ("size",),
                ("size", "inclusive_min"),
                ("inclusive_min", "exclusive_max"),
                ("inclusive_min", "inclusive_max"),
                ("exclusive_max",),
                ("inclusive_max",),
                ("inclusive_min",),
                ("size", "exclusive_max"),
                (),
            ]
        )
    )
    given_flags = {name: draw(flags) for name in ("implicit_lower", "implicit_upper")}
    return {
        **{name: draw(bounds) for name in names},
        **{name: flag for name, flag in given_flags.items() if flag is not None},
        "label": draw(labels),
    }


def made(kind: Any, arguments: dict[str, Any]) -> tuple[str, Any]:
    try:
        return "value", kind(**arguments)
    except (ValueError, TypeError) as error:
        return "error", kind_and_code(error)


def answer(ask: Callable[[], Any]) -> tuple[str, Any]:
    """Return what a call returns, or the code of its ValueError."""
    try:
        return "value", ask()
    except ValueError as error:
        return "error", kind_and_code(error)


def described(dim: Any) -> tuple[Any, ...]:
    return (
        repr(dim),
        str(dim),
        (dim.inclusive_min, dim.inclusive_max, dim.exclusive_min, dim.exclusive_max, dim.size),
        (dim.implicit_lower, dim.implicit_upper, dim.label, dim.empty, dim.finite),
    )


@given(arguments())
def test_dims_mean_the_same(given: dict[str, Any]) -> None:
    mine, theirs = made(Dim, given), made(real.Dim, given)
    if theirs[0] != "value":
        assert mine == theirs
        return
    assert mine[0] == "value", mine
    assert described(mine[1]) == described(theirs[1])
    assert pickle.loads(pickle.dumps(mine[1])) == copy.copy(mine[1]) == copy.deepcopy(mine[1]) == mine[1]
    for index in (-3, 0, 2, inf, -inf):
        assert (index in mine[1]) == (index in theirs[1]), index


@given(arguments(), arguments())
def test_pairs_of_dims(first: dict[str, Any], second: dict[str, Any]) -> None:
    mine = [made(Dim, each) for each in (first, second)]
    theirs = [made(real.Dim, each) for each in (first, second)]
    if any(kind != "value" for kind, _ in theirs):
        return
    (_, a), (_, b) = mine
    (_, real_a), (_, real_b) = theirs
    assert (a == b, b in a) == (real_a == real_b, real_b in real_a)
    assert answer(lambda: described(a.hull(b))) == answer(lambda: described(real_a.hull(real_b)))
    assert answer(lambda: described(a.intersect(b))) == answer(lambda: described(real_a.intersect(real_b)))


def test_dim_as_sequence() -> None:
    assert (len(Dim(5)), list(Dim(1, 3))) == (5, [1, 2])
    assert Dim(2, 4) in Dim(5)
    with pytest.raises(ValueError, match="Cannot iterate over infinite interval"):
        iter(Dim())
    with pytest.raises(TypeError):
        _ = "a" in Dim(5)
    with pytest.raises(TypeError):
        hash(Dim(5))
    dim = Dim(5)
    dim.label, dim.implicit_upper = "x", True
    assert str(dim) == '"x": [0, 5*)'
    assert Dim(5) != 5


VECTORS = ("inclusive_min", "exclusive_max", "inclusive_max", "shape")
items = st.one_of(st.integers(-2, 5), st.sampled_from([-inf, inf, inf + 1]))


@st.composite
def domain_arguments(draw: Any) -> dict[str, Any]:
    rank = draw(st.integers(0, 3))
    result: dict[str, Any] = {}
    for name in VECTORS:
        if draw(st.integers(0, 2)) == 0:
            length = rank if draw(st.integers(0, 9)) else rank + 1
            result[name] = draw(st.lists(items, min_size=length, max_size=length))
    if draw(st.booleans()):
        result["implicit_lower_bounds"] = draw(st.lists(st.booleans(), min_size=rank, max_size=rank))
    if draw(st.booleans()):
        result["labels"] = draw(st.lists(st.sampled_from(["x", "y", "", None]), min_size=rank, max_size=rank))
    if draw(st.booleans()):
        result["rank"] = rank
    return result


@given(domain_arguments())
def test_domains_mean_the_same(given: dict[str, Any]) -> None:
    mine, theirs = made(IndexDomain, given), made(real.IndexDomain, given)
    if theirs[0] != "value":
        assert mine == theirs
        return
    domain, expected = mine[1], theirs[1]
    for name in ("inclusive_min", "exclusive_max", "inclusive_max", "shape", "origin", "labels", "rank", "size"):
        assert getattr(domain, name) == getattr(expected, name), name
    assert domain.implicit_lower_bounds == expected.implicit_lower_bounds
    assert domain.implicit_upper_bounds == expected.implicit_upper_bounds
    assert (repr(domain), domain.to_json()) == (repr(expected), expected.to_json())
    assert [repr(dim) for dim in domain] == [repr(dim) for dim in expected]
    assert (
        IndexDomain(json=domain.to_json()) == IndexDomain(list(domain)) == pickle.loads(pickle.dumps(domain)) == domain
    )
    assert hash(copy.copy(domain)) == hash(domain)


json_bound = st.one_of(
    st.integers(-3, 6), st.sampled_from(["-inf", "+inf", "2", 2.0, 1.5, True, None, [], [1, 2], 2**62, {}])
)
json_items = st.one_of(json_bound, st.integers(-3, 6), json_bound.map(lambda value: [value]))
json_members = st.dictionaries(
    st.sampled_from(["inclusive_min", "shape", "exclusive_max", "inclusive_max"]),
    st.one_of(st.lists(json_items, max_size=2), st.lists(st.integers(-2, 5), max_size=3), st.just("x")),
    max_size=3,
)


@given(
    json_members,
    st.one_of(st.none(), st.lists(st.sampled_from(["x", "y", "", 5]), max_size=3)),
    st.one_of(st.none(), st.integers(0, 3), st.sampled_from([33, -1, "a", 2.0])),
    st.booleans(),
)
def test_json_means_the_same(members: dict[str, Any], labels: Any, rank: Any, extra: bool) -> None:
    document = dict(members)
    if labels is not None:
        document["labels"] = labels
    if rank is not None:
        document["rank"] = rank
    if extra:
        document["more"] = 1
    mine, theirs = made(IndexDomain, {"json": document}), made(real.IndexDomain, {"json": document})
    if theirs[0] == "value":
        assert mine[0] == "value", mine
        assert (repr(mine[1]), mine[1].to_json()) == (repr(theirs[1]), theirs[1].to_json())
    else:
        assert mine == theirs


@pytest.mark.parametrize("exclusive_max", [0, -5, 5, inf + 1])
def test_index_exp(exclusive_max: int) -> None:
    inputs = {"exclusive_max": [exclusive_max], "inclusive_min": [min(exclusive_max, 0)]}
    mine, theirs = made(IndexDomain, inputs), made(real.IndexDomain, inputs)
    assert answer(lambda: mine[1].index_exp) == answer(lambda: theirs[1].index_exp)


domain_pairs = st.tuples(domain_arguments(), domain_arguments())


@given(domain_pairs)
def test_merging_agrees_with_schemas(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    mine = [made(IndexDomain, each) for each in pair]
    theirs = [made(real.IndexDomain, each) for each in pair]
    if any(kind != "value" for kind, _ in theirs):
        return
    schema = real.Schema(domain=theirs[0][1])
    kind, _ = answer(lambda: schema.update(domain=theirs[1][1]))
    merged = answer(lambda: repr(merge_domains(mine[0][1], mine[1][1])))
    assert merged[0] == kind
    if kind == "value":
        assert merged[1] == repr(schema.domain)


def test_keywords_that_can_not_be_printed() -> None:
    with pytest.raises(TypeError) as raised:
        Dim(**{"\ud800": 0})
    assert str(raised.value).encode()


@pytest.mark.parametrize("how", ["translate_by", "translate_backward_by", "translate_to"])
@pytest.mark.parametrize("amount", [3, None, 2**62])
@pytest.mark.parametrize("bounds", [{}, {"exclusive_max": 3}, {"inclusive_min": 0, "exclusive_max": 3}])
def test_translations_reach_the_same_bounds(how: str, amount: int | None, bounds: dict[str, int]) -> None:
    def moved(domain: Any, dim: Any) -> Any:
        try:
            return repr(getattr(domain([dim(**bounds)]), how)[amount])
        except ValueError as error:
            return "error", kind_and_code(error)

    assert moved(IndexDomain, Dim) == moved(real.IndexDomain, real.Dim)
