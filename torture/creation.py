"""Several processes that create one node at the same moment: exactly one wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torture.libraries.interface import Lacking, Library
from torture.outcome import Outcome
from torture.updates import note
from torture.workers import Worker, job

WORKERS = 4
CASES = {"Zarr v2": "zarr2", "Zarr v3": "zarr3", "bcolz array": "bcolz", "bcolz table": "table", "own format": "own"}


def race(library: Library, around: Any, path: str, layout: str, worker: int, rounds: int) -> dict[str, Any]:
    """Create a node in each round, and return in which rounds it succeeded, and the errors of the others."""
    library.check(layout)
    won, errors = [], {}  # type: list[int], dict[str, int]
    for number in range(rounds):
        around.gate.wait(60)
        try:
            library.create(f"{path}-{number}", layout, 100 + worker, 10 + worker)
            won.append(number)
        except Lacking:
            raise
        except Exception as error:
            note(errors, error)
    return {"won": won, "errors": errors}


def check(library: Library, around: Any, path: str, layout: str, won: list[list[int]]) -> dict[str, int]:
    """Count the rounds with one winner, and the rounds whose node is that of a winner."""
    rounds = {number for share in won for number in share}
    one = [number for number in rounds if sum(number in share for share in won) == 1]
    fine = 0
    for number in one:
        try:
            node = library.open(f"{path}-{number}", layout)
            winner = next(worker for worker, share in enumerate(won) if number in share)
            fine += len(library.read(node)) == 100 + winner
            library.close(node)
        except Exception:  # it is not fine
            continue
    return {"one": len(one), "fine": fine}


def run(worker: Worker, root: Path, count: int) -> list[Outcome]:
    """Create `count` nodes of each kind that a library knows."""
    return [outcome for case in CASES if (outcome := trial(worker, str(root / CASES[case]), case, count)) is not None]


def trial(worker: Worker, path: str, case: str, rounds: int) -> Outcome | None:
    """Create `rounds` nodes of one kind; ``None`` if the library does not know it."""
    what: dict[str, Any] = {"path": path, "layout": CASES[case]}
    jobs = [job("creation:race", **what, worker=worker, rounds=rounds) for worker in range(WORKERS)]
    try:
        answers = worker.run(jobs, limit=300)
    except Lacking:
        return None
    won = [answer.get("value", {}).get("won", []) for answer in answers]
    facts = {"rounds": rounds, "errors": [answer.get("value", answer).get("errors", answer) for answer in answers]}
    facts.update(worker.ask("creation:check", **what, won=won))
    wrong = facts["one"] - facts["fine"]
    text = f"{facts['one']} of {rounds}" + (f", {wrong} not the winner's" if wrong else "")
    promise = f"{WORKERS} processes create one node, {rounds} times, {case}: exactly one wins"
    return Outcome("creation", promise, worker.name, text, facts)
