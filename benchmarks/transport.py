"""Accuracy, time and memory of the transport solver, beside POT and cvxpy.

Every study appends records to results/transport.jsonl and prints a table.
"""

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.datasets import load_dataset
from benchmarks.memory import PeakMemory
from benchmarks.records import RESULTS, append, now, provenance
from protocol_mvc.estimators.clusterers import PROTOCOL
from protocol_mvc.transport import solve

EPSILON = 0.1
TOL = 1e-9
POT_THRESHOLD = 1e-9

app = typer.Typer(no_args_is_help=True, help="Measure the transport solver.")
Row = dict[str, Any]


def long_tailed(n: int, k: int, seed: int = 0) -> torch.Tensor:
    """Return log-probabilities (n, k) of noisy predictions of classes with an imbalance ratio of 0.1."""
    generator = torch.Generator().manual_seed(seed)
    sizes = 10 ** -torch.linspace(0, 1, k, dtype=torch.float64)
    label = torch.multinomial(sizes, n, replacement=True, generator=generator)
    logits = torch.randn(n, k, generator=generator, dtype=torch.float64)
    logits[torch.arange(n), label] += 3
    return torch.log_softmax(logits, 1)


def scaling_algorithm(
    log_p: torch.Tensor, mass: float, prior_strength: float, tol: float
) -> tuple[float, int]:
    """Run Algorithm 2 of the paper on a stored kernel; return the error of the marginals and `n_iter`."""
    n, k = log_p.shape
    kernel = torch.cat([torch.exp(log_p / EPSILON), torch.ones(n, 1, dtype=log_p.dtype)], 1)
    goal = torch.tensor([mass / k] * k + [1 - mass], dtype=torch.float64)
    f = torch.tensor([prior_strength / (prior_strength + EPSILON)] * k + [1.0], dtype=torch.float64)
    b, error, n_iter = torch.ones(k + 1, dtype=torch.float64), math.inf, 0
    while error > tol and n_iter < 5_000:
        a = 1 / n / (kernel @ b)
        reached = kernel.T @ a
        wanted = goal.clone()
        wanted[:k] *= b[:k] ** (-EPSILON / prior_strength)
        error, n_iter = float((b * reached - wanted).abs().sum()), n_iter + 1
        b = (goal / reached) ** f
    return error, n_iter


def pot_unbalanced(
    log_p: torch.Tensor, prior_strength: float, method: str, threshold: float
) -> tuple[float, int]:
    """Run POT's solver for mass 1; return the error of both marginals and `n_iter`."""
    import ot

    n, k = log_p.shape
    plan, log = ot.unbalanced.sinkhorn_unbalanced(
        np.full(n, 1 / n),
        np.full(k, 1 / k),
        -log_p.numpy(),
        EPSILON,
        (math.inf, prior_strength),
        method=method,
        reg_type="entropy",
        numItermax=100_000,
        stopThr=threshold,
        log=True,
    )
    b = np.exp(log["logv"])
    wanted = b ** (-EPSILON / prior_strength) / k
    # POT ends with an update of the columns, so it is the rows that are not exact.
    return float(np.abs(plan.sum(0) - wanted).sum() + np.abs(plan.sum(1) - 1 / n).sum()), len(log["err"])


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Return wall seconds and result of a function."""
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def record(study: str, rows: Iterator[Row]) -> list[Row]:
    """Append each row as it comes, then print all rows."""
    found = []
    for row in rows:
        found.append(row)
        append({"study": study, **row, **provenance(), "ended": now()}, RESULTS / "transport.jsonl")
    table = Table(*found[0], title=study)
    for row in found:
        table.add_row(*(f"{x:.3g}" if isinstance(x, float) else str(x) for x in row.values()))
    Console(width=150).print(table)
    return found


@app.command()
def grid() -> None:
    """Compare iterations and seconds of Newton and Anderson over sizes, prior strengths and masses."""

    def rows() -> Iterator[Row]:
        for n, k in product((256, 10_000, 100_000), (10, 100)):
            log_p = long_tailed(n, k)
            for beta, mass in product((0.1, 1.0, 10.0), (0.1, 0.5, 0.9, 1.0)):
                row: Row = {"n": n, "k": k, "prior_strength": beta, "mass": mass}
                for method in ("newton", "anderson"):
                    arguments: Row = {
                        "mass": mass,
                        "prior_strength": beta,
                        "epsilon": EPSILON,
                        "method": method,
                    }
                    seconds, result = timed(partial(solve, log_p, tol=TOL, **arguments))
                    row |= {f"{method} n_iter": result.n_iter, f"{method} s": seconds}
                    row |= {f"{method} residual": result.residual, f"{method} gap": result.gap}
                yield row

    record("grid", rows())


@app.command()
def solvers(n: int = 100_000, k: int = 100) -> None:
    """Compare Newton with the paper's scaling (mass 0.5) and POT's unbalanced solvers (mass 1)."""
    log_p = long_tailed(n, k)

    def rows() -> Iterator[Row]:
        for mass in (0.5, 1.0):
            seconds, result = timed(partial(solve, log_p, mass=mass, epsilon=EPSILON, tol=TOL))
            ours = {"n": n, "k": k, "mass": mass, "solver": "newton", "seconds": seconds}
            yield {**ours, "residual": result.residual, "n_iter": result.n_iter, "times ours": 1.0}
            for name, run in OTHER_SOLVERS[mass].items():
                slow, (error, n_iter) = timed(partial(run, log_p))
                row = {"n": n, "k": k, "mass": mass, "solver": name, "seconds": slow, "residual": error}
                yield {**row, "n_iter": n_iter, "times ours": slow / seconds}

    record("solvers", rows())


# POT stops by the relative change of its scalings; this threshold leaves an error of 1e-9 in its marginals.
OTHER_SOLVERS: dict[float, dict[str, Callable[[torch.Tensor], tuple[float, int]]]] = {
    0.5: {
        "paper's scaling, stored kernel": lambda log_p: scaling_algorithm(log_p, 0.5, 1.0, TOL),
        "paper's scaling, log domain": lambda log_p: _ours(log_p, "scaling"),
    },
    1.0: {
        "POT sinkhorn": lambda log_p: pot_unbalanced(log_p, 1.0, "sinkhorn", POT_THRESHOLD),
        "POT translation invariant": lambda log_p: pot_unbalanced(
            log_p, 1.0, "sinkhorn_translation_invariant", POT_THRESHOLD
        ),
    },
}


def _ours(log_p: torch.Tensor, method: str) -> tuple[float, int]:
    result = solve(log_p, mass=0.5, epsilon=EPSILON, tol=TOL, method=method)
    return result.residual, result.n_iter


@app.command()
def agreement() -> None:
    """Measure the distance to cvxpy, to POT at mass 1 and to POT's balanced Sinkhorn with a hard prior."""
    import ot

    def rows() -> Iterator[Row]:
        log_p = long_tailed(8, 3)
        for mass, beta, epsilon in ((0.5, 1, 0.1), (0.1, 0.1, 0.1), (0.9, 10, 0.1), (0.3, 0.5, 0.05)):
            result = solve(log_p, mass=mass, prior_strength=beta, epsilon=epsilon, tol=1e-13)
            plan = by_cvxpy(log_p.numpy(), mass, beta, epsilon)
            value, own = objective_of(plan, log_p.numpy(), mass, beta, epsilon), result.plan(log_p).numpy()
            row: Row = {"with": "cvxpy", "mass": mass, "prior_strength": beta, "epsilon": epsilon}
            objective = abs(objective_of(own, log_p.numpy(), mass, beta, epsilon) - value)
            yield {**row, "plan": float(np.abs(own - plan).max()), "objective": float(objective)}
        log_p = long_tailed(300, 10)
        for beta in (0.1, 1.0, 10.0):
            plan = ot.unbalanced.sinkhorn_unbalanced(
                np.full(300, 1 / 300), np.full(10, 0.1), -log_p.numpy(), 0.1, (math.inf, beta),
                reg_type="entropy", numItermax=100_000, stopThr=1e-15,
            )  # fmt: skip
            own = solve(log_p, prior_strength=beta, tol=1e-13).plan(log_p).numpy()
            row = {"with": "POT unbalanced", "mass": 1.0, "prior_strength": beta, "epsilon": 0.1}
            yield {**row, "plan": float(np.abs(own - plan).max()), "objective": math.nan}
        cost = np.hstack([-log_p.numpy(), np.zeros((300, 1))])
        goal = np.array([0.05] * 10 + [0.5])
        plan = ot.sinkhorn(np.full(300, 1 / 300), goal, cost, 0.1, numItermax=100_000, stopThr=1e-15)
        own = solve(log_p, mass=0.5, prior_strength=math.inf, tol=1e-13).plan(log_p).numpy()
        row = {"with": "POT balanced", "mass": 0.5, "prior_strength": math.inf, "epsilon": 0.1}
        yield {**row, "plan": float(np.abs(own - plan[:, :-1]).max()), "objective": math.nan}

    record("agreement", rows())


def objective_of(plan: np.ndarray, log_p: np.ndarray, mass: float, beta: float, epsilon: float) -> float:
    """Return the primal objective with all its constants."""
    left, m, c = 1 / len(plan) - plan.sum(1), plan.sum(0), mass / plan.shape[1]
    entropy = sum((t[t > 0] * (np.log(t[t > 0]) - 1)).sum() for t in (plan, left))
    return float((plan * -log_p).sum() + epsilon * entropy + beta * (m * np.log(m / c) - m + c).sum())


def by_cvxpy(log_p: np.ndarray, mass: float, beta: float, epsilon: float) -> np.ndarray:
    """Return the plan (n, k) of a generic convex solver."""
    import cvxpy

    n, k = log_p.shape
    plan, left = cvxpy.Variable((n, k)), cvxpy.Variable(n)
    m = cvxpy.sum(plan, axis=0)
    entropy = -cvxpy.sum(cvxpy.entr(plan)) - cvxpy.sum(cvxpy.entr(left)) - 1
    sizes = cvxpy.sum(cvxpy.kl_div(m, np.full(k, mass / k)))
    goal = cvxpy.Minimize(cvxpy.sum(cvxpy.multiply(plan, -log_p)) + epsilon * entropy + beta * sizes)
    rules = [cvxpy.sum(plan, axis=1) + left == 1 / n, cvxpy.sum(left) == 1 - mass]
    precise = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}
    problem = cvxpy.Problem(goal, rules)
    problem.solve(solver="CLARABEL", **precise)
    found: np.ndarray = plan.value
    return found


@app.command("random")
def random_problems(count: int = 10_000, seed: int = 0) -> None:
    """Solve random problems, many of them extreme; count failures and iterations."""
    rng = np.random.default_rng(seed)
    n_iters, failures, unconverged = [], 0, 0
    started = time.perf_counter()
    for _ in range(count):
        log_p, arguments = random_problem(rng)
        try:
            result = solve(log_p, **arguments)
            plan = result.plan(log_p)
            wrong = abs(float(plan.sum()) - arguments["mass"]) > 1e-6
            failures += not bool(torch.isfinite(plan).all()) or (wrong and result.converged)
            unconverged += not result.converged
            n_iters.append(result.n_iter)
        except Exception as error:  # noqa: BLE001 (counting them is the purpose)
            failures += 1
            typer.echo(f"{arguments}: {error!r}", err=True)
    row: Row = {"problems": count, "seed": seed, "failures": failures, "unconverged": unconverged}
    row |= {f"n_iter at {q} %": float(np.percentile(n_iters, q)) for q in (50, 90, 99, 100)}
    record("random", iter([row | {"seconds": time.perf_counter() - started}]))


def random_problem(rng: np.random.Generator) -> tuple[torch.Tensor, Row]:
    """Return a problem: n to 2000, k to 300, epsilon 0.01 to 10, large logits, empty clusters, equal rows."""

    def draw(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    n, k, scale = int(draw(1, 2001)), int(draw(1, 301)), draw(0.1, 100)
    logits = rng.normal(size=(n, k)) * scale
    if rng.random() < 0.4:
        logits[:, rng.integers(k)] -= scale * rng.choice([5, 20, 100])
    if rng.random() < 0.3:
        logits = logits[rng.integers(n, size=n)]
    mass = 1.0 if rng.random() < 0.15 else float(rng.uniform(0.01, 1))
    beta = float(rng.choice([0.1, 1, 10, math.inf, draw(0.02, 50)]))
    dtype = torch.float32 if rng.random() < 0.3 else torch.float64
    log_p = torch.log_softmax(torch.tensor(logits), 1).to(dtype)
    return log_p, {"mass": mass, "prior_strength": beta, "epsilon": draw(0.01, 10)}


@app.command()
def memmap(k: int = 20) -> None:
    """Measure time per row and extra memory for memory maps of 0.5 and 5 million rows."""

    def rows() -> Iterator[Row]:
        with tempfile.TemporaryDirectory() as folder:
            for n in (500_000, 5_000_000):
                path = Path(folder) / f"{n}.npy"
                array = np.lib.format.open_memmap(path, "w+", np.float32, (n, k))
                for first in range(0, n, 500_000):
                    array[first : first + 500_000] = long_tailed(500_000, k, first).numpy()
                array.flush()
                command = [sys.executable, "-m", "benchmarks", "transport", "one-memmap", str(path)]
                yield json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    small, large = record("memmap", rows())
    typer.echo(f"time per row, large / small: {large['ns per row'] / small['ns per row']:.2f}")


@app.command(hidden=True)
def one_memmap(path: Path) -> None:
    """Solve the problem of one memory map and print the measurements as JSON."""
    log_p = np.load(path, mmap_mode="r")
    solve(log_p[:1000], mass=0.5)  # load all libraries before the baseline is read
    with PeakMemory("RssAnon") as memory:
        seconds, result = timed(lambda: solve(log_p, mass=0.5, epsilon=EPSILON, tol=TOL))
    row = {"n": len(log_p), "k": log_p.shape[1], "n_iter": result.n_iter, "seconds": seconds}
    row |= {"residual": result.residual, "ns per row": 1e9 * seconds / len(log_p)}
    typer.echo(
        json.dumps(row | {"extra MB": (memory.peak - memory.before) / 2**20, "file MB": log_p.nbytes / 2**20})
    )


@app.command()
def epoch() -> None:
    """Measure the share of the transport in an epoch of stage 3 on Hdigit at R = 0.1."""
    views, _ = load_dataset("hdigit", imbalance_ratio=0.1, random_state=0)
    model = PROTOCOL(10, random_state=0).set_params(
        config__schedule__n_epochs_align=2,
    )
    model.fit(views)
    last = [row["seconds"] for row in model.history_ if row["stage"].startswith("rebalance")]
    log_p = torch.from_numpy(np.log(np.maximum(model.predict_proba(views), 1e-30)))
    seconds = min(timed(lambda: solve(log_p, mass=0.5))[0] for _ in range(5))
    share = seconds / float(np.mean(last))
    row: Row = {"n": len(views), "epoch s": float(np.mean(last)), "transport s": seconds, "share": share}
    record("epoch", iter([row]))
