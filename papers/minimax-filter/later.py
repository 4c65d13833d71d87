"""What the paper mentions and does not measure, and what its later version adds.

ppls: the rows that were also run with the authors' own code. noisy: the filter with noise calibrated for differential
privacy, against epsilon. reconstruction: eq. 10 as utility. constrained: footnote 5, the most utility under a limit on
the secret. bound: how far expected risks may be from empirical ones, for every reader of the paper's family at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import brentq
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression

import tacit
from papers.common.run import Run, by_attacker, honest, together
from papers.common.shown import shown
from tacit.errors import TacitError
from tacit.noise.local_privacy import local_dp

from . import protocol
from .generalisation import risk_bound
from .rows import fresh_split, maker, split

SECRETS = {"genki": ("smile", "gender"), "har": ("activity", "subject")}
MADE = {
    "labels (eq. 8)": {"utility": "labels"},
    "record, linear h (eq. 10)": {"utility": "reconstruction"},
    "record, nonlinear h (eq. 10)": {"utility": "reconstruction", "decoder": "mlp"},
    "labels and record": {"utility": "both"},
}


def floor_of(run: Run, experiment: str) -> dict[str, Any] | None:
    """What label-only gives on the same rows: audited beside the raw data of another figure."""
    parts = run.paper.results.get(experiment, {}).get("raw", {})
    found = [part["value"] for key, part in parts.items() if key.startswith("audit raw data")]
    return together(found) if found else None


# -- PPLS beside the authors' code -----------------------------------------------------------------

AUTHORS = {  # HAR, activity and subject at d = 10, 20, by the authors' own code on one split
    ("random", 10): (0.734, 0.192), ("random", 20): (0.818, 0.270), ("PCA", 10): (0.872, 0.251),
    ("PCA", 20): (0.924, 0.368), ("PPLS, as printed", 10): (0.919, 0.173), ("PPLS, as printed", 20): (0.943, 0.157),
}  # fmt: skip


def ppls(run: Run) -> None:
    """Their reader has no intercept and sees the release as it comes; "printed" here is what their code gave."""
    for (name, d), theirs in AUTHORS.items():
        found = [run.part(f"{name} d={d} seed {seed}", bare_reader, name, d, seed) for seed in run.seeds]
        for at, (what, guessing) in enumerate((("activity", 0.197), ("subject", 0.077))):
            values = [f[at] for f in found]
            run.row(f"{name}, d={d}", f"{what}, accuracy (± {shown(float(np.std(values)))}, {len(values)} trials)",
                    theirs[at], float(np.mean(values)), guessing=guessing)  # fmt: skip


def bare_reader(name: str, d: int, seed: int) -> list[float]:
    """Softmax regression without an intercept on the release as it is."""
    train, test = split("har", seed)
    f = protocol.fitted(maker(name, "har", d, {})(seed, train), train)
    Z, Zt = (np.asarray(f.transform(x.X)) for x in (train, test))
    out = []
    for a, b in ((train.y, test.y), (train.sensitive, test.sensitive)):
        reader = LogisticRegression(C=1 / (2e-6 * len(Z)), max_iter=300, fit_intercept=False).fit(Z, a.iloc[:, 0])
        out.append(round(float((reader.predict(Zt) == b.iloc[:, 0]).mean()), 5))
    return out


# -- the noisy filter ------------------------------------------------------------------------------


def noisy(run: Run) -> None:
    """MinimaxFilter(10, noise): clipped to the unit ball, Gaussian noise of one release's epsilon at delta 1e-5."""
    s = run.settings
    figure = Figure(figsize=(4.2 * len(s["parts"]) + 1, 3.2), layout="constrained")
    axes = figure.subplots(1, len(s["parts"]), squeeze=False)[0]
    for axis, part in zip(axes, s["parts"], strict=True):
        target, secret = SECRETS[part]
        kept, leaks, at = [], [], [*s["epsilons"][part], *([float("inf")] if part in s["without"] else [])]
        for epsilon in at:
            name = f"epsilon {epsilon:g}" if np.isfinite(epsilon) else "no noise"
            audits = [run.part(f"{part} {name} seed {seed}", noisy_filter, part, str(epsilon), seed, s["steps"],
                               s["attackers"]) for seed in range(s["audits"])]  # fmt: skip
            found = together(audits)
            leak, use = found["leakage"][secret], found["utility"][target]
            kept.append(use)
            leaks.append(leak)
            run.row(f"{s['names'][part]}, {name}", f"{target}, accuracy", None, use["value"],
                    guessing=use["guessing"])  # fmt: skip
            run.row(f"{s['names'][part]}, {name}", f"{secret}, balanced (guessing {shown(leak['guessing'])})",
                    **by_attacker(leak))  # fmt: skip
            floor = floor_of(run, {"genki": "fig2", "har": "fig4"}[part])
            run.audited(f"noisy minimax d=10, {name}", s["names"][part], audits, floor=floor)
        places = np.arange(len(at))
        for told, colour, label in ((kept, "tab:blue", target), (leaks, "tab:red", f"{secret}, fresh attackers")):
            value = np.array([t["value"] for t in told])
            arms = [value - [t["low"] for t in told], [t["high"] for t in told] - value]
            axis.errorbar(places, value, np.abs(arms), fmt="o-", color=colour, ms=4, capsize=2, label=label)
            axis.axhline(told[0]["guessing"], color=colour, ls=":", lw=0.8)
        axis.set_xticks(places, [f"{e:g}" if np.isfinite(e) else "none" for e in at])
        axis.set(title=s["names"][part], xlabel="epsilon of one release (none: no noise)", ylim=(0, 1))
        axis.legend(frameon=False, fontsize=8)
    axes[0].set_ylabel("accuracy (dotted: guessing)")
    run.figure("noisy", figure)


def noise_for(epsilon: float) -> float:
    """The standard deviation on the unit ball that one release of this epsilon needs."""
    return float(brentq(lambda sigma: local_dp(sigma)["epsilon"] - epsilon, 1e-2, 1e3))


def noisy_filter(part: str, epsilon: str, seed: int, steps: int, attackers: list[str]) -> dict[str, Any]:
    train, attack, test = fresh_split(part, seed)
    noise = None if epsilon == "inf" else noise_for(float(epsilon))
    f = protocol.fitted(tacit.MinimaxFilter(10, noise=noise, max_iter=steps, random_state=seed), train)
    return honest(
        tacit.audit(
            f,
            attack,
            test,
            attackers,
            measurements="no-baseline",
            random_state=seed,
            options=tacit.AuditOptions(pooled=()),
        )
    )


# -- reconstruction as utility -----------------------------------------------------------------------


def reconstruction(run: Run) -> None:
    """Genki: what is kept is the smile, the picture, or both; gender is withheld."""
    s = run.settings
    for name in ("PCA", *MADE):
        found = [run.part(f"{name} seed {seed}", rebuilt, name, s["d"], seed, s["steps"], s["attackers"])
                 for seed in run.seeds]  # fmt: skip
        audit = together([f["audit"] for f in found])
        at = f"{'' if name == 'PCA' else 'minimax, '}{name}, d={s['d']}"
        values = [f["rebuilt"] for f in found]
        run.row(at, f"picture, share of variance rebuilt (± {shown(float(np.std(values)))}, {len(values)} seeds)",
                None, float(np.mean(values)), guessing=0.0)  # fmt: skip
        run.row(at, "smile, accuracy", None, audit["utility"]["smile"]["value"], guessing=0.5)
        run.row(at, "gender, balanced (guessing .500)", **by_attacker(audit["leakage"]["gender"]))
        run.audited(at, "genki", [f["audit"] for f in found], floor=floor_of(run, "fig2"))


def rebuilt(name: str, d: int, seed: int, steps: int, attackers: list[str]) -> dict[str, Any]:
    """Share of the test pictures' variance that a linear decoder, learned on other rows, gets back; and the attack."""
    train, attack, test = fresh_split("genki", seed)
    f: Any = PCA(d, random_state=seed)
    if name in MADE:
        f = tacit.MinimaxFilter(d, init="pca", max_iter=steps, random_state=seed, rho=10.0, **MADE[name])
    f = protocol.fitted(f, train)
    Z, Zt = (np.asarray(f.transform(x.X)) for x in (attack, test))
    told = LinearRegression().fit(Z, attack.X).score(Zt, test.X, sample_weight=None)
    audit = tacit.audit(
        f, attack, test, attackers, measurements="no-baseline", random_state=seed, options=tacit.AuditOptions(pooled=())
    )
    return {"rebuilt": round(float(told), 5), "audit": honest(audit)}


# -- footnote 5 ----------------------------------------------------------------------------------------


def constrained(run: Run) -> None:
    """Eq. 9 for one rho after the other; of those whose held-out attackers stay under the limit, the most useful."""
    s = run.settings
    asked = (s["limits"], s["rhos"], s["steps"], s["attackers"])
    by_seed = [run.part(f"seed {seed}", under_limits, seed, *asked) for seed in run.seeds]
    for i, limit in enumerate(s["limits"]):
        kept = [found[i] for found in by_seed if found[i]["rho"] is not None]
        at = f"gender at most {shown(limit)}"
        run.row(at, f"seeds of {len(by_seed)} in which some rho keeps to it on held-out rows", None, float(len(kept)))
        if not kept:
            continue
        audit = together([f["audit"] for f in kept])
        run.row(at, f"rho chosen, median of {len(kept)}", None, float(np.median([f["rho"] for f in kept])))
        run.row(at, "smile on test rows, accuracy", None, audit["utility"]["smile"]["value"], guessing=0.5)
        run.row(at, "gender on test rows, balanced (guessing .500)", **by_attacker(audit["leakage"]["gender"]))
        run.audited(f"minimax d=10, {at}", "genki", [f["audit"] for f in kept], floor=floor_of(run, "fig2"))


def under_limits(
    seed: int, limits: list[float], rhos: list[float], steps: int, attackers: list[str]
) -> list[dict[str, Any]]:
    """For each limit the rho chosen on held-out rows, and what its filter keeps and gives away on test rows."""
    train, attack, test = fresh_split("genki", seed)
    learn, held = attack.split((0.5, 0.5), random_state=seed)
    # in one process: parts of an experiment may run side by side already
    front = tacit.frontier(tacit.MinimaxFilter(10, max_iter=steps), train, learn, held, values=rhos, seeds=[seed],
                           attackers=attackers, n_jobs=1)  # fmt: skip
    out: list[dict[str, Any]] = []
    for limit in limits:
        try:
            best = front.choose(max_leakage={"gender": limit})
        except TacitError:
            out.append({"rho": None})
            continue
        audit = tacit.audit(
            best,
            attack,
            test,
            attackers,
            measurements="no-baseline",
            random_state=seed,
            options=tacit.AuditOptions(pooled=()),
        )
        out.append({"rho": float(best.rho), "audit": honest(audit)})
    return out


# -- generalisation --------------------------------------------------------------------------------------


def bound(run: Run) -> None:
    """Rows that the filter never saw; its code divided by its largest norm on the rows it learned from, and clipped."""
    s = run.settings
    for norm in s["norms"]:
        found = [run.part(f"norm {norm} seed {seed}", risks, norm, seed, s["steps"]) for seed in run.seeds]
        for secret in ("gender", "smile"):
            told = {k: float(np.mean([f[secret][k] for f in found])) for k in ("empirical", "least", "guessing")}
            run.row(f"minimax, ours, d=10, readers of norm {norm:g}",
                    f"{secret}, cross-entropy of the best on {found[0]['n']} rows", None, told["empirical"],
                    guessing=told["guessing"])  # fmt: skip
            run.row(f"minimax, ours, d=10, readers of norm {norm:g}",
                    f"{secret}, least expected cross-entropy of any (bound, 95 %)", None, told["least"],
                    guessing=told["guessing"])  # fmt: skip


def risks(norm: float, seed: int, steps: int) -> dict[str, Any]:
    train, attack, _ = fresh_split("genki", seed)
    f = protocol.fitted(tacit.MinimaxFilter(10, max_iter=steps, random_state=seed), train)
    size = np.linalg.norm(f.transform(train.X), axis=1).max()
    z = f.transform(attack.X) / size
    z = z / np.maximum(1, np.linalg.norm(z, axis=1))[:, None]
    out: dict[str, Any] = {"n": len(z)}
    for name, labels in (("gender", attack.sensitive["gender"]), ("smile", attack.y["smile"])):
        told = risk_bound(z, np.unique(labels, return_inverse=True)[1], norm)
        out[name] = {"empirical": told.empirical, "least": told.least, "guessing": told.guessing}
    return out
