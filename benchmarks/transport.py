"""What the transport solver can do, measured: `python benchmarks/transport.py --help`.

Every study appends JSON lines to benchmarks/results/transport.jsonl and prints a table.
"""

import json
import math
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import cvxpy
import numpy as np
import ot
import torch
import typer
from rich.console import Console
from rich.table import Table

from benchmarks import provenance
from protocol_mvc.estimators.clusterers import PROTOCOL
from protocol_mvc.io.datasets import load_dataset
from protocol_mvc.transport import solve

RESULTS = Path(__file__).parent / "results" / "transport.jsonl"
EPSILON = 0.1
TOLERANCE = 1e-9
POT_THRESHOLD = 1e-9

app = typer.Typer(no_args_is_help=True, help=__doc__)
Row = dict[str, Any]


def long_tailed(n: int, k: int, seed: int = 0) -> torch.Tensor:
    """Log-probabilities of noisy predictions for classes whose sizes fall tenfold."""
    generator = torch.Generator().manual_seed(seed)
    sizes = 10 ** -torch.linspace(0, 1, k, dtype=torch.float64)
    label = torch.multinomial(sizes, n, replacement=True, generator=generator)
    logits = torch.randn(n, k, generator=generator, dtype=torch.float64)
    logits[torch.arange(n), label] += 3
    return torch.log_softmax(logits, 1)


def plain_scaling(log_p: torch.Tensor, mass: float, kl_weight: float, tolerance: float) -> tuple[float, int]:
    """Algorithm 2 of the paper on a stored kernel, stopped by the error of its marginals."""
    n, k = log_p.shape
    kernel = torch.cat([torch.exp(log_p / EPSILON), torch.ones(n, 1, dtype=log_p.dtype)], 1)
    goal = torch.tensor([mass / k] * k + [1 - mass], dtype=torch.float64)
    f = torch.tensor([kl_weight / (kl_weight + EPSILON)] * k + [1.0], dtype=torch.float64)
    b, error, passes = torch.ones(k + 1, dtype=torch.float64), math.inf, 0
    while error > tolerance and passes < 5_000:
        a = 1 / n / (kernel @ b)
        reached = kernel.T @ a
        wanted = goal.clone()
        wanted[:k] *= b[:k] ** (-EPSILON / kl_weight)
        error, passes = float((b * reached - wanted).abs().sum()), passes + 1
        b = (goal / reached) ** f
    return error, passes


def pot_unbalanced(log_p: torch.Tensor, kl_weight: float, method: str, threshold: float) -> tuple[float, int]:
    """POT's solver for the whole mass; the error is that of both marginals."""
    n, k = log_p.shape
    plan, log = ot.unbalanced.sinkhorn_unbalanced(
        np.full(n, 1 / n),
        np.full(k, 1 / k),
        -log_p.numpy(),
        EPSILON,
        (math.inf, kl_weight),
        method=method,
        reg_type="entropy",
        numItermax=100_000,
        stopThr=threshold,
        log=True,
    )
    b = np.exp(log["logv"])
    wanted = b ** (-EPSILON / kl_weight) / k
    # POT ends with an update of the columns, so it is the rows that are not exact.
    return float(np.abs(plan.sum(0) - wanted).sum() + np.abs(plan.sum(1) - 1 / n).sum()), len(log["err"])


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result."""
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def record(study: str, rows: Iterator[Row]) -> list[Row]:
    """Append each row as it comes, then print them all."""
    RESULTS.parent.mkdir(exist_ok=True)
    kept = []
    for row in rows:
        kept.append(row)
        with RESULTS.open("a") as file:
            file.write(json.dumps({"study": study, **row, **provenance()}) + "\n")
    table = Table(*kept[0], title=study)
    for row in kept:
        table.add_row(*(f"{x:.3g}" if isinstance(x, float) else str(x) for x in row.values()))
    Console(width=150).print(table)
    return kept


@app.command()
def grid() -> None:
    """Passes and seconds of Newton and Anderson over sizes, KL weights and masses."""

    def rows() -> Iterator[Row]:
        for n, k in product((256, 10_000, 100_000), (10, 100)):
            log_p = long_tailed(n, k)
            for beta, mass in product((0.1, 1.0, 10.0), (0.1, 0.5, 0.9, 1.0)):
                row: Row = {"n": n, "k": k, "kl_weight": beta, "mass": mass}
                for method in ("newton", "anderson"):
                    arguments: Row = {"mass": mass, "kl_weight": beta, "epsilon": EPSILON, "method": method}
                    seconds, result = timed(partial(solve, log_p, tol=TOLERANCE, **arguments))
                    row |= {f"{method} passes": result.n_iter, f"{method} s": seconds}
                    row |= {f"{method} residual": result.residual, f"{method} gap": result.gap}
                yield row

    record("grid", rows())


@app.command()
def rivals(n: int = 100_000, k: int = 100) -> None:
    """Newton beside the paper's scaling (mass 0.5) and POT's unbalanced solvers (mass 1), to one residual."""
    log_p = long_tailed(n, k)

    def rows() -> Iterator[Row]:
        for mass in (0.5, 1.0):
            seconds, result = timed(partial(solve, log_p, mass=mass, epsilon=EPSILON, tol=TOLERANCE))
            ours = {"n": n, "k": k, "mass": mass, "solver": "newton", "seconds": seconds}
            yield {**ours, "residual": result.residual, "passes": result.n_iter, "times ours": 1.0}
            for name, run in RIVALS[mass].items():
                slow, (error, passes) = timed(partial(run, log_p))
                row = {"n": n, "k": k, "mass": mass, "solver": name, "seconds": slow, "residual": error}
                yield {**row, "passes": passes, "times ours": slow / seconds}

    record("rivals", rows())


# POT stops by the relative change of its scalings; this threshold leaves an error of 1e-9 in its marginals.
RIVALS: dict[float, dict[str, Callable[[torch.Tensor], tuple[float, int]]]] = {
    0.5: {
        "paper's scaling, stored kernel": lambda log_p: plain_scaling(log_p, 0.5, 1.0, TOLERANCE),
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
    result = solve(log_p, mass=0.5, epsilon=EPSILON, tol=TOLERANCE, method=method)
    return result.residual, result.n_iter


@app.command()
def agreement() -> None:
    """Distance from cvxpy, from POT at mass 1 and from POT's balanced Sinkhorn with a hard prior."""

    def rows() -> Iterator[Row]:
        log_p = long_tailed(8, 3)
        for mass, beta, epsilon in ((0.5, 1, 0.1), (0.1, 0.1, 0.1), (0.9, 10, 0.1), (0.3, 0.5, 0.05)):
            result = solve(log_p, mass=mass, prior_strength=beta, epsilon=epsilon, tol=1e-13)
            plan = by_cvxpy(log_p.numpy(), mass, beta, epsilon)
            value, own = objective_of(plan, log_p.numpy(), mass, beta, epsilon), result.plan(log_p).numpy()
            row: Row = {"with": "cvxpy", "mass": mass, "kl_weight": beta, "epsilon": epsilon}
            objective = abs(objective_of(own, log_p.numpy(), mass, beta, epsilon) - value)
            yield {**row, "plan": float(np.abs(own - plan).max()), "objective": float(objective)}
        log_p = long_tailed(300, 10)
        for beta in (0.1, 1.0, 10.0):
            plan = ot.unbalanced.sinkhorn_unbalanced(
                np.full(300, 1 / 300), np.full(10, 0.1), -log_p.numpy(), 0.1, (math.inf, beta),
                reg_type="entropy", numItermax=100_000, stopThr=1e-15,
            )  # fmt: skip
            own = solve(log_p, prior_strength=beta, tol=1e-13).plan(log_p).numpy()
            row = {"with": "POT unbalanced", "mass": 1.0, "kl_weight": beta, "epsilon": 0.1}
            yield {**row, "plan": float(np.abs(own - plan).max()), "objective": math.nan}
        cost = np.hstack([-log_p.numpy(), np.zeros((300, 1))])
        goal = np.array([0.05] * 10 + [0.5])
        plan = ot.sinkhorn(np.full(300, 1 / 300), goal, cost, 0.1, numItermax=100_000, stopThr=1e-15)
        own = solve(log_p, mass=0.5, prior_strength=math.inf, tol=1e-13).plan(log_p).numpy()
        row = {"with": "POT balanced", "mass": 0.5, "kl_weight": math.inf, "epsilon": 0.1}
        yield {**row, "plan": float(np.abs(own - plan[:, :-1]).max()), "objective": math.nan}

    record("agreement", rows())


def objective_of(plan: np.ndarray, log_p: np.ndarray, mass: float, beta: float, epsilon: float) -> float:
    """The primal objective with all its constants."""
    left, m, c = 1 / len(plan) - plan.sum(1), plan.sum(0), mass / plan.shape[1]
    entropy = sum((t[t > 0] * (np.log(t[t > 0]) - 1)).sum() for t in (plan, left))
    return float((plan * -log_p).sum() + epsilon * entropy + beta * (m * np.log(m / c) - m + c).sum())


def by_cvxpy(log_p: np.ndarray, mass: float, beta: float, epsilon: float) -> np.ndarray:
    """The plan of a generic convex solver."""
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
    """Random problems, easy and absurd: how many fail, and how many passes they take."""
    rng = np.random.default_rng(seed)
    passes, failures, unconverged = [], 0, 0
    started = time.perf_counter()
    for _ in range(count):
        log_p, arguments = random_problem(rng)
        try:
            result = solve(log_p, **arguments)
            plan = result.plan(log_p)
            wrong = abs(float(plan.sum()) - arguments["mass"]) > 1e-6
            failures += not bool(torch.isfinite(plan).all()) or (wrong and result.converged)
            unconverged += not result.converged
            passes.append(result.n_iter)
        except Exception as error:  # noqa: BLE001 (counting them is the purpose)
            failures += 1
            typer.echo(f"{arguments}: {error!r}", err=True)
    row: Row = {"problems": count, "seed": seed, "failures": failures, "unconverged": unconverged}
    row |= {f"passes at {q} %": float(np.percentile(passes, q)) for q in (50, 90, 99, 100)}
    record("random", iter([row | {"seconds": time.perf_counter() - started}]))


def random_problem(rng: np.random.Generator) -> tuple[torch.Tensor, Row]:
    """N to 2000, K to 300, epsilon 0.01 to 10, logits times up to 100, dead clusters, repeated rows."""

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
    return log_p, {"mass": mass, "kl_weight": beta, "epsilon": draw(0.01, 10)}


@app.command()
def memmap(k: int = 20) -> None:
    """Time per row and extra memory for a memory map of half a million and of five million rows."""

    def rows() -> Iterator[Row]:
        with tempfile.TemporaryDirectory() as folder:
            for n in (500_000, 5_000_000):
                path = Path(folder) / f"{n}.npy"
                array = np.lib.format.open_memmap(path, "w+", np.float32, (n, k))
                for first in range(0, n, 500_000):
                    array[first : first + 500_000] = long_tailed(500_000, k, first).numpy()
                array.flush()
                command = [sys.executable, __file__, "one-memmap", str(path)]
                yield json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    kept = record("memmap", rows())
    typer.echo(f"time per row, large / small: {kept[1]['ns per row'] / kept[0]['ns per row']:.2f}")


@app.command(hidden=True)
def one_memmap(path: Path) -> None:
    """Solve one memory map in a fresh process, whose peak memory then tells."""
    log_p = np.load(path, mmap_mode="r")
    solve(log_p[:1000], mass=0.5)  # load all libraries before the baseline is read
    with Peak() as peak:
        seconds, result = timed(lambda: solve(log_p, mass=0.5, epsilon=EPSILON, tol=TOLERANCE))
    row = {"n": len(log_p), "k": log_p.shape[1], "passes": result.n_iter, "seconds": seconds}
    row |= {"residual": result.residual, "ns per row": 1e9 * seconds / len(log_p)}
    typer.echo(json.dumps(row | {"extra MB": peak.extra / 1024, "file MB": log_p.nbytes / 2**20}))


class Peak:
    """The most private memory of this process, sampled; pages of mapped files are the system's, not ours."""

    def __enter__(self) -> "Peak":
        self._over = threading.Event()
        self._before = self._most = self._now()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.extra = self._most - self._before

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self._most = max(self._most, self._now())

    def _now(self) -> int:
        status = Path("/proc/self/status").read_text()
        return int(re.findall(r"RssAnon:\s+(\d+) kB", status)[0])


@app.command()
def epoch() -> None:
    """The share of the transport in a training epoch on Hdigit at R = 0.1, solved over all samples."""
    views, _ = load_dataset("hdigit", imbalance_ratio=0.1, random_state=0)
    model = PROTOCOL(10, random_state=0).set_params(config__reconstruct_length=2, config__align_length=2)
    model.set_params(config__early_end=False).fit(views)
    last = [row["seconds"] for row in model.history_ if row["stage"].startswith("rebalance")]
    log_p = torch.from_numpy(np.log(np.maximum(model.predict_proba(views), 1e-30)))
    seconds = min(timed(lambda: solve(log_p, mass=0.5))[0] for _ in range(5))
    share = seconds / float(np.mean(last))
    row: Row = {"n": len(views), "epoch s": float(np.mean(last)), "transport s": seconds, "share": share}
    record("epoch", iter([row]))


if __name__ == "__main__":
    app()
