"""Futures behave as those of TensorStore, however the result is produced."""

import asyncio
import inspect
import pickle
import threading
import time
from typing import Any

import pytest
import tensorstore

from tegula.tensorstore.future import Future, Promise, WriteFutures, background, failed, immediate, ready, written


def story(package: Any) -> list[Any]:
    """Return a log of what happens to a few futures."""
    told: list[Any] = []

    def tell(action: Any) -> None:
        try:
            told.append(action())
        except BaseException as error:
            told.append((type(error).__name__, str(error)))

    for settle in (
        lambda promise, future: promise.set_result(5),
        lambda promise, future: promise.set_exception(ValueError("x")),
        lambda promise, future: future.cancel(),
    ):
        promise, future = package.Promise.new()
        called: list[bool] = []

        def callback(seen: Any, called: list[bool] = called, future: Any = future) -> None:
            called.append(seen is future)

        tell(lambda future=future: future.done())
        tell(lambda future=future: future.result(timeout=0.001))
        tell(lambda future=future: future.exception(deadline=time.time() - 1))
        for _ in range(3):
            future.add_done_callback(callback)
        tell(lambda future=future: future.remove_done_callback(callback))
        future.add_done_callback(callback)
        tell(lambda settle=settle, promise=promise, future=future: settle(promise, future))
        tell(lambda settle=settle, promise=promise, future=future: settle(promise, future))
        tell(lambda promise=promise: promise.set_result(6))
        future.add_done_callback(callback)
        for name in ("result", "exception", "done", "cancelled", "cancel", "force"):
            tell(lambda future=future, name=name: str(getattr(future, name)()))
        told.append(called)
    tell(lambda: package.Future(3).result())
    same = package.Future(4)
    tell(lambda: package.Future(same) is same)
    tell(lambda: package.Future(same).remove_done_callback(print))
    tell(package.Promise)
    tell(package.WriteFutures)
    tell(lambda: pickle.dumps(same))
    promise, future = package.Promise.new()
    del promise
    tell(lambda: future.result(timeout=5))
    return told


class Own:
    Future, Promise, WriteFutures = Future, Promise, WriteFutures


def test_promises_and_futures_tell_the_same() -> None:
    names = {"ValueStatusError": "ValueError", "ArgumentTypeError": "TypeError"}
    results = [(names.get(each[0], each[0]), each[1]) if isinstance(each, tuple) else each for each in story(Own)]
    assert results == story(tensorstore)


_OF_WRITES = ("result", "exception", "done", "cancel", "cancelled", "add_done_callback", "remove_done_callback")


@pytest.mark.parametrize("name", _OF_WRITES)
def test_methods_of_writes_are_functions_of_the_class(name: str) -> None:
    method = getattr(WriteFutures, name)
    assert callable(method)
    assert callable(getattr(tensorstore.WriteFutures, name))
    parameters = inspect.signature(method).parameters.values()
    wanted = inspect.signature(getattr(Future, name)).parameters.values()
    assert [(one.name, one.default) for one in parameters] == [(one.name, one.default) for one in wanted]
    called: list[Any] = []
    for commit in (ready(None), failed(KeyError("x"))):
        arguments = [called.append] if name.endswith("callback") else []
        of_commit = immediate(getattr(commit, name), *arguments)
        of_write = immediate(method, written(commit), *arguments)
        assert of_write.exception() is of_commit.exception()
        assert of_write.exception() or of_write.result() == of_commit.result()
        assert all(future is commit for future in called)
        called.clear()


def test_coroutines_become_futures_and_futures_are_awaited() -> None:
    async def value() -> int:
        await asyncio.sleep(0)
        return 42

    async def wrong() -> int:
        raise KeyError("z")

    async def main() -> None:
        future: Future[int] = Future[int](value())
        assert not future.done()
        assert await future == 42
        assert await ready(3) == 3
        with pytest.raises(KeyError):
            await Future[int](wrong())
        promise: Promise[int]
        waiting: Future[int]
        promise, waiting = Promise.new()
        threading.Timer(0.01, lambda: promise.set_result(9)).start()
        assert await waiting == 9
        _, lost = Promise.new()
        task = asyncio.ensure_future(lost)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert lost.cancelled()
        assert await background(lambda: 7) == 7
        await written(ready(None))

    asyncio.run(main())
    coroutine = value()
    with pytest.raises(ValueError, match="no event loop"):
        Future[int](coroutine)
    coroutine.close()


def test_futures_of_calls_have_results_or_errors() -> None:
    assert immediate(divmod, 7, 2).result() == (3, 1)
    error = immediate(divmod, 7, 0).exception()
    assert isinstance(error, ZeroDivisionError)
    assert failed(error).exception() is error
    with pytest.raises(ZeroDivisionError):
        background(divmod, 7, 0).result()
    start = threading.Event()
    future: Future[Any] = background(start.wait)
    both = written(future, ready(None))
    seen: list[Any] = []
    both.add_done_callback(seen.append)
    assert both.copy.done()
    assert not both.done()
    start.set()
    both.result(timeout=5)
    assert both.exception() is None
    assert not both.cancel()
    assert not both.cancelled()
    for _ in range(1000):
        if seen:
            break
        time.sleep(0.001)
    assert seen == [future]
    assert both.remove_done_callback(seen.append) == 0


def test_callbacks_tell_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    def callback(future: Any) -> None:
        raise ValueError("not awaited")

    ready(1).add_done_callback(callback)
    assert "not awaited" in capsys.readouterr().err
    promise: Promise[int]
    future: Future[int]
    promise, future = Promise.new()
    wrong: Any = 5
    with pytest.raises(TypeError, match="BaseException"):
        promise.set_exception(wrong)
    promise.set_result(1)
    assert future.result() == 1
