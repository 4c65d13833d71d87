"""Beyond the paper's tables: other secrets, an undeclared task, a number as secret, and a refined model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.cluster import KMeans
from sklearn.ensemble import ExtraTreesClassifier, RandomForestRegressor

import tacit
from papers.common.run import Run, by_attacker, together
from papers.data import require
from papers.data.signals import MOTION as SOURCE
from papers.data.signals import PEOPLE
from tacit.auditing.attackers import ATTACKERS
from tacit.auditing.measurements.baseline import labels_alone

from .networks import spectra
from .protocol import line_of, measured, network, read_by_cnns, some_windows, told

PRIVDIFFUSER = {"activity": 0.963, "gender": 0.500}  # as that paper prints them, its attackers trained on raw windows
METHODS = {
    "raw": lambda s, seed: None,
    "AAE, as printed": lambda s, seed: tacit.AnonymizingAutoencoder.as_printed(
        epochs=s["epochs"], n_maps=s["maps"], random_state=seed
    ),
    "AAE, ours": lambda s, seed: tacit.AnonymizingAutoencoder(
        epochs=s["epochs"], n_maps=s["maps"], batch_size=128, random_state=seed
    ),
    "16 waveforms (ours)": lambda s, seed: tacit.AnonymizingAutoencoder(
        0.6, 2.0, codes=16, epochs=s["epochs"], learning_rate=2e-3, random_state=seed
    ),
}

# -- gender, gender with identity, weight --------------------------------------------------------------


def gender(run: Run) -> None:
    """PrivDiffuser's task: the activity stays, the gender goes."""
    hide(run, ("gender",), PRIVDIFFUSER)


def with_identity(run: Run) -> None:
    """Both at once: gender is a function of who it is."""
    hide(run, ("identity", "gender"), {})


def weight(run: Run) -> None:
    """Whether a person weighs more than the people's median."""
    hide(run, ("weight",), {})


def hide(run: Run, secrets: Sequence[str], printed: dict[str, float]) -> None:
    s = sizes(run)
    for label, value in printed.items():
        run.row("PrivDiffuser, attackers of raw windows", f"{label}, accuracy", value)
    found = {
        name: [run.part(f"{name}, seed {seed}", hidden, name, list(secrets), seed, s) for seed in run.seeds]
        for name in run.settings["methods"]
    }
    floor = run.part("label-only", label_only, list(secrets), s)
    for name, audits in found.items():
        one = together(audits)
        kept = one["utility"]["activity"]
        run.row(name, "activity, accuracy", None, kept["value"], interval=(kept["low"], kept["high"]),
                guessing=kept["guessing"])  # fmt: skip
        for secret in secrets:
            leak = one["leakage"][secret]
            transfer = float(np.mean([a["transfer"][secret]["value"] for a in audits]))
            run.row(name, f"{secret}, accuracy", None, transfer, guessing=leak["guessing"],
                    **by_attacker(leak))  # fmt: skip
        run.audited(line_of(name), sized(s), audits, floor=floor)
    run.note(
        "Here `ours` of a secret is an attacker that learned from raw windows; the column beside it has the better "
        "of two networks that learned from released windows of the same people's other recordings, which the filter "
        f"saw. All filters learned from {s['windows']:,} windows, those of autoencoders with {s['maps']} maps "
        "(printed: 100)."
    )


def label_only(secrets: list[str], s: dict[str, Any]) -> dict[str, Any]:
    """What a forest's answers about the activity keep, and what they leak when they alone are released."""
    train, test = some_windows(s, "trial", sensitive=secrets)
    forest = ExtraTreesClassifier(100, random_state=0, n_jobs=1).fit(spectra(train.X), train.y["activity"])
    codes = [
        np.searchsorted(forest.classes_, forest.predict(spectra(d.X)))[:, None].astype(float) for d in (train, test)
    ]
    kept, leaked = labels_alone(codes[0], train, codes[1], test)
    plain = {k: {"value": r.value, "low": r.low, "high": r.high, "guessing": r.guessing} for k, r in leaked.items()}
    return {"label_only": plain, "label_only_utility": {k: {"value": r.value} for k, r in kept.items()}}


def sized(s: dict[str, Any]) -> str:
    """The data as the summary calls them: experiments of other sizes are other figures."""
    return f"motionsense, {s['windows']:,} windows, {s['maps']} maps"


def sizes(run: Run) -> dict[str, Any]:
    """The settings that a part reads: one more method changes nothing for the others."""
    return {k: v for k, v in run.settings.items() if k != "methods"}


def hidden(name: str, secrets: list[str], seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """One filter on the Trial split: what fresh networks read off its release, and what readers of raw windows do."""
    train, test = some_windows(s, "trial", sensitive=secrets)
    f = METHODS[name](s, seed)
    if f is not None:
        f.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of(secrets[0]))
    a, b = (d.X if f is None else f.transform(d.X).astype(np.float32) for d in (train, test))
    bout = recordings(test)
    out: dict[str, Any] = {"utility": {}, "leakage": {}, "transfer": {}, "certificate": {}}
    out |= {"label_only": {}, "label_only_utility": {}}
    answer = network(a, train.y["activity"], s["attack_epochs"], seed=seed)(b)
    out["utility"]["activity"] = told(measured(test.y["activity"], answer, bout), "wide CNN")
    for secret in secrets:
        who = train.sensitive[secret], test.sensitive[secret]
        out["leakage"][secret] = read_by_cnns(a, who[0], b, who[1], bout, s["attack_epochs"], seed)
        raw = network(train.X, who[0], s["attack_epochs"], seed=seed)(b)
        out["transfer"][secret] = told(measured(who[1], raw, bout), "reader of raw windows")
        out["certificate"][secret] = None
    return out


def recordings(data: Any) -> np.ndarray:
    """The recording of each window, also where the secret's own unit is the person: activity and person make one."""
    people = data.units_of("identity") if "identity" in data.sensitive else data.units_of(data.sensitive.columns[0])
    return np.array([f"{p} {a}" for p, a in zip(people, data.y["activity"], strict=True)])


# -- an activity that nobody declared ------------------------------------------------------------------


def undeclared(run: Run) -> None:
    """What filters keep of the activity when training knows identity alone (MaSS's question)."""
    s = sizes(run)
    found = {
        name: [run.part(f"{name}, seed {seed}", not_told, name, seed, s) for seed in run.seeds]
        for name in run.settings["methods"]
    }
    floor = run.part("label-only", label_only, ["identity"], s)
    for name, audits in found.items():
        one = together(audits)
        kept, leak = one["utility"]["activity"], one["leakage"]["identity"]
        run.row(name, "activity, accuracy", None, kept["value"], interval=(kept["low"], kept["high"]),
                guessing=kept["guessing"])  # fmt: skip
        run.row(name, "identity, accuracy", None, None, guessing=leak["guessing"], **by_attacker(leak))
        run.audited(line_of(name), sized(s), audits, floor=floor)
    if any(name.endswith("nothing declared") for name in found):
        run.note("No filter saw an activity. `nothing declared` keeps windows by their distortion alone (Section 3.4).")
    if any(name.endswith("clusters") for name in found):
        run.note(
            "No filter saw an activity: they were told to keep which of eight clusters of spectra a window falls into, "
            "found by k-means in the training windows. EIGAN, DPFE and the codebook read and release rows: log power "
            "spectra."
        )


WINDOWED = {
    "AAE, nothing declared": lambda s, seed: tacit.AnonymizingAutoencoder(
        s["beta"], beta_distortion=1.0, epochs=s["epochs"], n_maps=s["maps"], batch_size=128, random_state=seed
    ),
    "AAE, clusters": METHODS["AAE, ours"],
    "16 waveforms, clusters": METHODS["16 waveforms (ours)"],
}
ROWS = {
    "EIGAN, clusters": lambda s, seed: tacit.EIGAN(epochs=s["row_epochs"], random_state=seed),
    "DPFE, clusters": lambda s, seed: tacit.DPFE(random_state=seed),
    "codebook, clusters": lambda s, seed: tacit.CodebookFilter(16, random_state=seed),
}


def not_told(name: str, seed: int, s: dict[str, Any]) -> dict[str, Any]:
    train, test = some_windows(s, "trial")
    flat = [spectra(d.X) for d in (train, test)]
    scale = flat[0].std(axis=0)
    cluster = KMeans(8, n_init=3, random_state=seed).fit_predict(flat[0] / scale)
    who, units = train.sensitive["identity"], train.units_of("identity")
    if name in WINDOWED:
        f, X = WINDOWED[name](s, seed), (train.X, test.X)
    elif name in ROWS:
        f, X = ROWS[name](s, seed), (flat[0], flat[1])
    else:
        f, X = None, (train.X, test.X)
    if f is not None:
        y = None if name.endswith("nothing declared") else cluster
        f.fit(X[0], y, sensitive_features=who, units=units)
    a, b = (x if f is None else f.transform(x) for x in X)
    read = read_by_rows if name in ROWS else read_by_cnns
    out: dict[str, Any] = {"certificate": {"identity": None}, "label_only": {}, "label_only_utility": {}}
    for kind, label, column in (("utility", "activity", "y"), ("leakage", "identity", "sensitive")):
        learn, truth = (getattr(d, column)[label] for d in (train, test))
        out[kind] = {label: read(a, learn, b, truth, test.units_of("identity"), s["attack_epochs"], seed)}
    return out


def read_by_rows(a: Any, learn: Any, b: Any, truth: Any, units: Any, epochs: int, seed: int) -> dict[str, Any]:
    """A label off released rows, by the better of extra trees and a perceptron; both are kept."""
    classes, codes = np.unique(np.asarray(learn), return_inverse=True)
    mean, scale = a.mean(0), a.std(0) + 1e-9
    a, b = (a - mean) / scale, (b - mean) / scale
    found = {}
    for by in ("forest", "mlp"):
        model = ATTACKERS[by](a.shape, len(classes), seed).fit(a, codes)
        found[by] = measured(truth, classes[model.predict_proba(b).argmax(1)], units)
    best = max(found, key=lambda by: found[by][0])
    return {**told(found[best], best), "each": {by: m[0] for by, m in found.items()}}


# -- a number as secret --------------------------------------------------------------------------------


def age(run: Run) -> None:
    """Age in years, told of people that neither the filter nor the regressors have seen."""
    s = sizes(run)
    parts = {
        name: [run.part(f"{name}, seed {seed}", years, name, seed, s) for seed in run.seeds]
        for name in run.settings["methods"]
    }
    for name, found in parts.items():
        for key, words in (("rank", "age, rank correlation over 24 people"), ("r2", "age, R2 over 24 people")):
            values = [f[key] for f in found]
            run.row(name, words, None, float(np.mean(values)), interval=(min(values), max(values)))
        kept = [f["activity"][0] for f in found]
        run.row(name, "activity, accuracy on other people", None, float(np.mean(kept)), interval=(min(kept), max(kept)),
                guessing=found[0]["activity"][3])  # fmt: skip
    run.note(
        "Four folds of six people: filter and regressors learn from eighteen, the six others' ages are the mean answer "
        "over their windows. With 24 people a rank correlation below about .40 is not told from none (95 %). The "
        "filter withholds age in four classes. Intervals are from the least to the most of the seeds."
    )


def years(name: str, seed: int, s: dict[str, Any]) -> dict[str, Any]:
    data = tacit.load_dataset("motionsense", sensitive="identity", stride=s["stride"])
    people = pd.read_csv(str(require(PEOPLE, SOURCE))).set_index("code")["age"]
    who = data.sensitive["identity"].to_numpy()
    age_of = people.loc[who].to_numpy(float)
    edges = np.quantile(people, (0.25, 0.5, 0.75))
    classes = np.digitize(age_of, edges)
    folds = np.random.default_rng(seed).permutation(people.index.to_numpy()).reshape(4, 6)
    answer, activity, truth, units = {}, [], [], []
    for fold in folds:
        test = np.isin(who, fold)
        train = ~test
        f = METHODS[name](s, seed)
        if f is not None:
            f.fit(data.X[train], data.y[train], sensitive_features=classes[train], units=who[train])
        a, b = (data.X[r] if f is None else f.transform(data.X[r]).astype(np.float32) for r in (train, test))
        flat = [np.concatenate([spectra(x), x.mean(-1), x.std(-1)], axis=1) for x in (a, b)]
        forest = RandomForestRegressor(s["trees"], min_samples_leaf=5, max_features=0.3, random_state=seed, n_jobs=1)
        guess = forest.fit(flat[0], age_of[train]).predict(flat[1])
        answer |= {int(p): float(guess[who[test] == p].mean()) for p in fold}
        activity.append(network(a, data.y["activity"][train], s["attack_epochs"], seed=seed)(b))
        truth.append(data.y["activity"][test].to_numpy())
        units.append(who[test])
    told_age, true_age = np.array([answer[int(p)] for p in people.index]), people.to_numpy(float)
    r2 = 1 - ((told_age - true_age) ** 2).sum() / ((true_age - true_age.mean()) ** 2).sum()
    rank = float(spearmanr(told_age, true_age)[0]) if told_age.std() > 0 else 0.0
    kept = measured(np.concatenate(truth), np.concatenate(activity), np.concatenate(units))
    return {"rank": rank, "r2": float(r2), "activity": kept}


# -- refining a model ----------------------------------------------------------------------------------


def refine(run: Run) -> None:
    """Section 3.3: a user downloads a public model and refines it on their own data."""
    s = run.settings
    found = [run.part(f"seed {seed}", refined, seed, s) for seed in run.seeds]
    for name in found[0]:
        of = [f[name] for f in found]
        one = together([{**o, "certificate": {}, "label_only": {}, "label_only_utility": {}} for o in of])
        kept, leak = one["utility"]["activity"], one["leakage"]["identity"]
        run.row(name, "activity, accuracy", None, kept["value"], interval=(kept["low"], kept["high"]),
                guessing=kept["guessing"])  # fmt: skip
        run.row(name, "identity of four, accuracy", None, None, guessing=leak["guessing"], **by_attacker(leak))
    run.note(
        "The public model learned from twenty people; the four others refine it on their training trials, for as many "
        "epochs as a model of their own gets. All three are measured on the four people's test trials."
    )


def refined(seed: int, s: dict[str, Any]) -> dict[str, Any]:
    public = tacit.load_dataset("motionsense", split="subject", sensitive="identity", stride=s["stride"]).split(
        "official"
    )
    own = tacit.load_dataset("motionsense", split="trial", sensitive="identity", stride=s["stride"]).split("official")
    four = np.unique(public[1].sensitive["identity"])
    train, test = (d.take(np.flatnonzero(np.isin(d.sensitive["identity"], four))) for d in own)
    make = {"n_maps": s["maps"], "batch_size": 128, "random_state": seed}
    first = tacit.AnonymizingAutoencoder(epochs=s["epochs"], **make)
    first.fit(public[0].X, public[0].y, sensitive_features=public[0].sensitive, units=public[0].units_of("identity"))
    filters = {"public model": first}
    for name, start in (("refined", first), ("their own, from scratch", None)):
        f = tacit.AnonymizingAutoencoder(epochs=s["own_epochs"], start=start, **make)
        f.fit(train.X, train.y, sensitive_features=train.sensitive, units=train.units_of("identity"))
        filters[name] = f
    out = {}
    for name, f in filters.items():
        a, b = (f.transform(d.X).astype(np.float32) for d in (train, test))
        units = test.units_of("identity")
        arguments = units, s["attack_epochs"], seed
        out[name] = {
            "utility": {"activity": read_by_cnns(a, train.y["activity"], b, test.y["activity"], *arguments)},
            "leakage": {
                "identity": read_by_cnns(a, train.sensitive["identity"], b, test.sensitive["identity"], *arguments)
            },
        }
    return out
