"""Random chains of indexing expressions mean the same in tegula and TensorStore."""

import importlib.util
import itertools
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.tensorstore.index import dim, domain, indexing, output_maps, transform

pytestmark = pytest.mark.once(executors="none")

_spec = importlib.util.spec_from_file_location("indexing_worker", Path(__file__).with_name("indexing_worker.py"))
assert _spec is not None
assert _spec.loader is not None
_worker = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_worker)
outcomes = _worker.outcomes


class here:
    """The names of the package under test."""

    Dim = dim.Dim
    IndexDomain = domain.IndexDomain
    IndexTransform = transform.IndexTransform
    OutputIndexMap = output_maps.OutputIndexMap
    d = indexing.d


indices = st.integers(-2, 8)
small = st.integers(-1, 5)
steps = st.sampled_from(["", ":1", ":2", ":-1", ":-2", ":3"])
labels = st.sampled_from(["x", "y", "z", "w", ""])


@st.composite
def slices(draw: Any) -> str:
    start, stop = draw(st.one_of(st.just(""), indices)), draw(st.one_of(st.just(""), indices))
    step = draw(steps)
    # a backward slice loses its start or stop there if the bounds are implicit
    return f"::{step[1:]}" if "-" in step else f"{start}:{stop}{step}"


@st.composite
def arrays(draw: Any) -> str:
    shape = draw(st.sampled_from([(2,), (3,), (1,), (2, 3), (3, 1), (0,), (1, 1)]))
    values = draw(st.lists(small, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    if draw(st.integers(0, 4)) == 0:
        return f"np.array({draw(small)})"
    return f"np.array({values}, dtype=np.int64).reshape({shape})"


masks = st.sampled_from(
    ["True", "False", "np.array(True)", "np.array([True, False, True])", "np.array([[True, False], [True, True]])"]
)
whole_terms = st.one_of(indices.map(str), slices(), arrays(), st.just("None"), slices(), masks)
terms = st.one_of(whole_terms, whole_terms, whole_terms, st.just("..."))


@st.composite
def index_expressions(draw: Any, terms: Any = terms) -> str:
    if draw(st.integers(0, 3)) == 0:
        return draw(st.one_of(terms, slices()))
    return ", ".join(draw(st.lists(terms, min_size=1, max_size=4))) + ","


@st.composite
def dim_lists(draw: Any) -> str:
    each = st.one_of(
        st.integers(-3, 3).map(str),
        st.sampled_from(["x", "y", "z"]).map(repr),
        st.sampled_from([":", "1:", ":2", "::-1", ":-1", "::2"]),
    )
    return ", ".join(draw(st.lists(each, min_size=1, max_size=3)))


vectors = st.one_of(
    indices.map(str), st.lists(st.one_of(st.none(), indices), min_size=1, max_size=3).map(lambda v: f"{v}")
)


@st.composite
def dim_operations(draw: Any, terms: Any = whole_terms) -> str:
    kind = draw(st.integers(0, 10))
    if kind < 4:
        return f"{draw(st.sampled_from(['', '.oindex', '.vindex', '']))}[{draw(index_expressions(terms))}]"
    if kind == 4:
        return f".{draw(st.sampled_from(['translate_by', 'translate_to', 'translate_backward_by']))}[{draw(vectors)}]"
    if kind == 5:
        return f".stride[{draw(st.sampled_from(['1', '2', '-1', '-3', '[2, -1]', '[1, 2, 3]', '0']))}]"
    if kind == 6:
        return f".label[{draw(st.lists(labels, min_size=1, max_size=3))}]"
    if kind == 7:
        return f".mark_bounds_implicit[{draw(st.sampled_from(['True', 'False', 'True:False', ':True', 'False:']))}]"
    if kind == 8:
        return f".transpose[{draw(st.sampled_from(['0', '1', '-1', '[0, 1]', '[1, 0]', '1:', '::-1', ':', '[2]']))}]"
    return ".diagonal" if kind == 9 else f"[{draw(slices())}]"


@st.composite
def chains(draw: Any) -> str:
    # an ellipsis that is not in the first operation may lose dimensions there
    return "".join([draw(dim_operations(terms)), *draw(st.lists(dim_operations(), max_size=2))])


@st.composite
def operations(draw: Any) -> str:
    kind = draw(st.integers(0, 9))
    if kind < 4:
        return f"x{draw(st.sampled_from(['', '.oindex', '.vindex', '']))}[{draw(index_expressions())}]"
    if kind == 4:
        return f"x.{draw(st.sampled_from(['translate_by', 'translate_to', 'translate_backward_by']))}[{draw(vectors)}]"
    if kind == 5:
        return f"x.label[{draw(st.lists(labels, min_size=1, max_size=3))}]"
    if kind == 6:
        return draw(st.sampled_from(["x.mark_bounds_implicit[True]", "x.mark_bounds_implicit[:False]", "x.T"]))
    chain = draw(chains())
    return f"x[ts.d[{draw(dim_lists())}]{chain}]"


@st.composite
def domain_operations(draw: Any) -> str:
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return f"x.{draw(st.sampled_from(['translate_by', 'translate_to', 'translate_backward_by']))}[{draw(vectors)}]"
    if kind == 1:
        return f"x.label[{draw(st.lists(labels, min_size=1, max_size=3))}]"
    if kind == 2:
        return f"x.{draw(st.sampled_from(['hull', 'intersect', '__getitem__']))}({draw(domains())})"
    if kind == 3:
        return draw(st.sampled_from(["x.mark_bounds_implicit[True]", "x.mark_bounds_implicit[:False]", "x.T"]))
    if kind == 4:
        return f"x[{draw(dim_lists())},]"
    chain = draw(chains())
    return f"x[ts.d[{draw(dim_lists())}]{chain}]"


@st.composite
def domains(draw: Any) -> str:
    rank = draw(st.integers(0, 4))
    origin = draw(st.lists(st.integers(-2, 2), min_size=rank, max_size=rank))
    shape = draw(st.lists(st.sampled_from([3, 1, 2, 4, 5, 6, 0]), min_size=rank, max_size=rank))
    flags = [draw(st.lists(st.booleans(), min_size=rank, max_size=rank)) for _ in range(2)]
    # an empty dimension with an implicit upper bound has another origin there once it is reversed, or is an error
    flags[1] = [flag and size > 0 for flag, size in zip(flags[1], shape, strict=True)]
    named = draw(st.permutations(["x", "y", "z", ""]))[:rank]
    if draw(st.booleans()):
        origin, flags[0] = [0] * rank, [False] * rank
    if draw(st.booleans()):
        flags[1] = [False] * rank
    return (
        f"ts.IndexDomain(inclusive_min={origin}, shape={shape}, implicit_lower_bounds={flags[0]}, "
        f"implicit_upper_bounds={flags[1]}, labels={list(named) if draw(st.booleans()) else None})"
    )


class RealPackage:
    """TensorStore in another process, which is started again when it crashes."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def outcomes(self, sources: list[str]) -> list[list[str]] | None:
        """Return the result of each expression; None if TensorStore crashed."""
        if self.process is None:
            command = [sys.executable, str(Path(__file__).with_name("indexing_worker.py"))]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(sources) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.close()
            return None
        return json.loads(line)

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate(timeout=60)
            self.process = None


@pytest.fixture(scope="module")
def real() -> Iterator[RealPackage]:
    package = RealPackage()
    yield package
    package.close()


@pytest.fixture(scope="module", autouse=True)
def _masks_of_any_length() -> Iterator[None]:
    # there, a mask may be shorter or longer than the dimension
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexing, "check_mask", lambda *arguments: None)
        yield


@pytest.mark.slow
@settings(max_examples=300)
@given(start=domains(), chain=st.lists(operations(), min_size=1, max_size=4))
def test_chains_of_operations_on_transforms_mean_the_same(real: RealPackage, start: str, chain: list[str]) -> None:
    sources = [f"ts.IndexTransform({start})", *chain]
    theirs = real.outcomes(sources)
    if theirs is not None:
        assert outcomes(here, sources) == theirs


@pytest.mark.slow
@settings(max_examples=150)
@given(start=domains(), chain=st.lists(domain_operations(), min_size=1, max_size=4))
def test_chains_of_operations_on_domains_mean_the_same(real: RealPackage, start: str, chain: list[str]) -> None:
    sources = [start, *chain]
    theirs = real.outcomes(sources)
    if theirs is not None:
        assert outcomes(here, sources) == theirs


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "x[np.array(1), :, [0, 1]]",
        "x[np.array(1), None, [0, 1]]",
        "x[[0, 1], np.array(1)]",
        "x[..., np.array(1), 1]",
        "x[np.array(1)]",
        "x[ts.d[:][np.array(1)]]",
        "x[ts.d[:][np.array(1), :, [0, 1]]]",
        "x[np.array(1, np.uint64)]",
    ],
)
def test_index_arrays_without_axes(real: RealPackage, source: str) -> None:
    sources = ["ts.IndexTransform(ts.IndexDomain(shape=[2, 3, 4]))", source]
    assert outcomes(here, sources) == real.outcomes(sources)


@pytest.mark.slow
@pytest.mark.parametrize(("lower", "upper"), [("[0, 0]", "[2, [1]]"), ("[0, 0]", "[[1], 2]"), ("[0, 0]", "[[1], [2]]")])
@pytest.mark.parametrize("size", ["3", "2", "[2]"])
@pytest.mark.parametrize("more", ["", ', "offset": 1, "stride": -1'])
def test_diagonals_have_explicit_bounds_before_implicit_ones(
    real: RealPackage, lower: str, upper: str, size: str, more: str
) -> None:
    inner = f'{{"input_shape": [{size}], "output": [{{"input_dimension": 0}}, {{"input_dimension": 0{more}}}]}}'
    sources = [
        f'ts.IndexTransform(json={{"input_inclusive_min": {lower}, "input_exclusive_max": {upper}}})',
        f"x[ts.IndexTransform(json={inner})]",
    ]
    assert outcomes(here, sources) == real.outcomes(sources)


@st.composite
def documents(draw: Any, rank: int, outputs: int) -> dict[str, Any]:
    """Draw a transform of constants and input dimensions, over bounds of all kinds."""
    lower = draw(st.lists(st.integers(-2, 2), min_size=rank, max_size=rank))
    bounds = [lower, [start + draw(st.integers(0, 4)) for start in lower]]
    infinite = "-inf", "+inf"
    for side, name in enumerate(infinite):
        bounds[side] = [draw(st.sampled_from([bound] * 9 + [name])) for bound in bounds[side]]
        bounds[side] = [draw(st.sampled_from([bound, bound, [bound]])) for bound in bounds[side]]
    constants = st.fixed_dictionaries({"offset": st.integers(-3, 3)})
    single = {"input_dimension": st.integers(0, rank - 1), "offset": st.sampled_from([0, 0, 1, -1])}
    dimensions = st.fixed_dictionaries({**single, "stride": st.sampled_from([1, 1, 1, -1, 2, 0])})
    maps = st.one_of(dimensions, dimensions, constants) if rank else constants
    return {
        "input_inclusive_min": bounds[0],
        "input_exclusive_max": bounds[1],
        "output": draw(st.lists(maps, min_size=outputs, max_size=outputs)),
    }


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data(), st.integers(0, 3), st.integers(0, 2))
def test_compositions_mean_the_same(real: RealPackage, data: Any, rank: int, inner_rank: int) -> None:
    outer, inner = data.draw(documents(rank, 2)), data.draw(documents(inner_rank, rank))
    sources = [f"ts.IndexTransform(json={outer})", f"x[ts.IndexTransform(json={inner})]"]
    assert outcomes(here, sources) == real.outcomes(sources)


@pytest.mark.slow
@pytest.mark.parametrize("lower", ["1", "[1]"])
def test_a_domain_composed_with_index_arrays(real: RealPackage, lower: str) -> None:
    inner = f'{{"input_inclusive_min": [{lower}], "input_exclusive_max": [2], "output": [{{"index_array": [7]}}]}}'
    sources = ["ts.IndexDomain(shape=[3])", f"x[ts.IndexTransform(json={inner})]"]
    assert outcomes(here, sources) == real.outcomes(sources)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lower", "upper", "array"),
    [
        ("[[0], 0]", "[3, 0]", "[[], [], []]"),
        ("[[0], 0]", "[3, 0]", "[[], []]"),
        ("[0, [0]]", "[3, 0]", "[[1]]"),
        ("[0, 0]", "[3, [0]]", "[[1], [2], [3]]"),
        ("[0, 0]", "[3, 0]", "[[1], [2], [3]]"),
    ],
)
def test_index_arrays_over_empty_domains(real: RealPackage, lower: str, upper: str, array: str) -> None:
    bounds = f'"input_inclusive_min": {lower}, "input_exclusive_max": {upper}'
    sources = [f'ts.IndexTransform(json={{{bounds}, "output": [{{"index_array": {array}}}]}})', "x[1, 0]"]
    assert outcomes(here, sources) == real.outcomes(sources)


slice_parts = st.one_of(st.none(), st.integers(-4, 8))


@pytest.mark.slow
@given(st.integers(-3, 3), st.integers(0, 6), slice_parts, slice_parts, st.integers(-3, 3))
def test_slices_of_explicit_bounds(
    real: RealPackage, origin: int, size: int, start: int | None, stop: int | None, step: int
) -> None:
    source = f"x[{'' if start is None else start}:{'' if stop is None else stop}:{step}]"
    sources = [f"ts.IndexTransform(ts.IndexDomain(inclusive_min=[{origin}], shape=[{size}]))", source]
    assert outcomes(here, sources) == real.outcomes(sources)


@pytest.mark.parametrize(
    ("expression", "values"),
    [("x[3::-1]", [3, 2, 1, 0]), ("x[:1:-1]", [5, 4, 3, 2]), ("x[4:1:-2]", [4, 2]), ("x[3::-2]", [3, 1])],
)
def test_backward_slices_of_implicit_bounds(expression: str, values: list[int]) -> None:
    bounds = domain.IndexDomain(shape=[6], implicit_lower_bounds=[True], implicit_upper_bounds=[True])
    for x in (transform.identity(bounds), transform.identity(bounds).translate_by[0]):
        result = eval(expression, {"x": x})
        assert [result((index,))[0] for index in result.domain[0]] == values


# marking bounds changes a transform, and is no transform itself
@pytest.mark.slow
@given(start=domains(), first=operations(), second=operations().filter(lambda source: "mark_bounds" not in source))
def test_composition_is_application(start: str, first: str, second: str) -> None:
    """Looking an index up in a view of a view is looking it up twice."""
    try:
        outer = eval(first, {"x": eval(f"ts.IndexTransform({start})", {"ts": here}), "ts": here, "np": np})
        inner = eval(second, {"x": transform.identity(outer.domain), "ts": here, "np": np})
        both = eval(second, {"x": outer, "ts": here, "np": np})
    except (IndexError, ValueError, TypeError):
        return
    assert both.to_json() == transform.compose(outer, inner).to_json()
    assert pickle.loads(pickle.dumps(both)) == both
    if any(size > 20 for size in both.shape):
        return
    for index in itertools.islice(np.ndindex(both.shape), 20):
        position = [int(at + lower) for at, lower in zip(index, both.origin, strict=True)]
        try:
            expected = outer(inner(position))
        except ValueError:
            continue
        assert both(position) == expected
