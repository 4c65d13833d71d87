"""Table 3, Fig. 3, 14, 15: cross-entropies after training and over it. Fig. 16: a game that cannot settle."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.decomposition import PCA

import tacit
from papers.common.principal import principal
from papers.common.run import Run, together

from .protocol import (
    adult_parts,
    each_release,
    fitted,
    history,
    in_print,
    mean_in_print,
    measured,
    mimic3_parts,
    mimic_parts,
    titanic_parts,
    validation,
)

# -- Table 3, Fig. 3, 14, 15 --------------------------------------------------------------------------


def table3(run: Run) -> None:
    """Titanic, and Fig. 15: true cross-entropies. The printed ones come of a sigmoid applied twice: floor .313."""
    found = each_curve(run, "titanic")
    for name, runs in found.items():
        for i, label in enumerate(LABELS["titanic"]):
            leak = together([r["audit"] for r in runs])["leakage"][label] if i else None
            mean_in_print(run, name, label, runs, TABLE_3.get(name, (None,) * 3)[i], loss=True, leak=leak)
        run.audited(IN_FULL.get(name, name), "titanic", [r["audit"] for r in runs],
                    floor=found["autoencoder"][0]["audit"])  # fmt: skip
    tell_epsilon(run, "titanic", found["DP"])
    run.figure("fig15", three_panels(found, LABELS["titanic"]))


PRINTED, OURS = "EIGAN as printed", "EIGAN, ours"
TABLE_3 = {
    "autoencoder": (0.6333, 0.4918, 0.7351), "PCA": (0.6439, 0.5236, 0.7289),
    "DP": (0.6869, 0.5733, 0.7904), PRINTED: (0.6396, 0.5444, 0.8011),
}  # fmt: skip
IN_FULL = {"DP": "Laplace mechanism, matched", OURS: "EIGAN, l=8, alpha .3, noise .3"}
LABELS = {
    "titanic": ("Survived", "Sex", "Pclass"),
    "adult": ("income", "sex", "race"),
    "mimic_demo": ("HOSPITAL_EXPIRE_FLAG", "GENDER", "ETHNICITY"),
    "mimic3": ("HOSPITAL_EXPIRE_FLAG", "GENDER", "RACE"),
}


def printed_game(seed: int, s: Mapping[str, Any]) -> tacit.EIGAN:
    """Algorithm A1, alpha .5, no noise; size of the code, batches and epochs as in the authors' code."""
    size, epochs = s.get("printed_size", 256), s.get("printed_epochs", 1001)
    return tacit.EIGAN.as_printed(size, epochs=epochs, batch_size=1024, random_state=seed)


def released(name: str, train: tacit.Dataset, labels: Sequence[str], seed: int, s: Mapping[str, Any]) -> Any:
    """The five of Table 3, fitted."""
    if name == "DP":
        return matched(train, labels[1], seed, s)
    return fitted(
        {
            "autoencoder": lambda: tacit.baselines.Autoencoder(
                int(principal(PCA(0.99), train.X).pca.n_components_), epochs=s["epochs"], random_state=seed
            ),
            "PCA": lambda: PCA(0.99),
            PRINTED: lambda: printed_game(seed, s),
            OURS: lambda: tacit.EIGAN(8, 0.3, noise=0.3, epochs=s["epochs"], random_state=seed),
        }[name](),
        train,
        seed,
    )


def matched(train: tacit.Dataset, secret: str, seed: int, s: Mapping[str, Any]) -> Any:
    """Laplace noise of that epsilon whose adversary loses most nearly what the printed EIGAN's does, as in print.

    Tuned on validation rows, to the first adversary (the paper's caption: the second is not matched). A real local
    mechanism: clip, then noise.
    """
    own, held_out = validation(train, seed)

    def loss(release: Any) -> float:
        return in_print(release, own, [held_out], seed, s["evaluation"], [secret])[secret]["log_loss"]

    wanted = loss(fitted(printed_game(seed, s), own, seed))
    grid = s["epsilons"] if "epsilons" in s else [k * s["epsilon"] for k in (2.5, 5, 10, 20, 40, 80, 160)]
    by = {eps: abs(loss(fitted(tacit.baselines.LaplaceMechanism(eps), own, seed)) - wanted) for eps in grid}
    return fitted(tacit.baselines.LaplaceMechanism(min(by, key=by.__getitem__)), train, seed)


def tell_epsilon(run: Run, data: str, runs: Sequence[Mapping[str, Any]]) -> None:
    chosen = ", ".join(f"{r['epsilon']:g}" for r in runs)
    run.note(f"{data}: DP's epsilon, tuned on validation rows to {PRINTED}'s first adversary, by seed: {chosen}.")


def fig3(run: Run) -> None:
    """Adult takes the place of MIMIC-III (`--data mimic3` runs it); the demo's 129 rows beside it."""
    for data in run.settings.get("data", ["adult", "mimic_demo"]):
        curves(
            run,
            data,
            f"fig3-{data}",
            ("as PCA's, below DP's (text); below all (caption)", "as DP's", "as DP's"),
        )


def each_curve(run: Run, data: str) -> dict[str, list[dict[str, Any]]]:
    names = ("autoencoder", "PCA", "DP", PRINTED, OURS)
    return {
        name: [run.part(f"{data} {name} seed {seed}", curve, data, name, seed, run.settings) for seed in run.seeds]
        for name in names
    }


def curves(run: Run, data: str, figure: str, printed: Sequence[str]) -> None:
    """(a) adversaries' and (b) the ally's test loss over their training, means over seeds; (c) the printed game's own.

    `printed` is what the paper says of EIGAN's losses, by label.
    """
    found, labels = each_curve(run, data), LABELS[data]
    for name, runs in found.items():
        audits = [r["audit"] for r in runs if r["audit"]]
        leaks = together(audits)["leakage"] if audits else {}
        for label, words in zip(labels, printed, strict=True):
            leak = leaks.get(label)
            mean_in_print(run, f"{data}: {name}", label, runs, words if name == PRINTED else None, loss=True,
                          leak=leak)  # fmt: skip
        if audits:
            run.audited(IN_FULL.get(name, name), data, audits, floor=found["autoencoder"][0]["audit"])
    tell_epsilon(run, data, found["DP"])
    run.figure(figure, three_panels(found, labels))


def three_panels(found: Mapping[str, Sequence[Mapping[str, Any]]], labels: Sequence[str]) -> Figure:
    """As the paper draws it; `labels` are the ally's and then the adversaries'. Grey: what guessing costs."""
    drawn = Figure(figsize=(11, 4.4), layout="constrained")
    adversaries, ally, game = drawn.subplots(1, 3)
    styles = ("-", "--")[: len(labels) - 1]
    for name, runs in found.items():
        for style, label in zip(styles, labels[1:], strict=True):
            adversaries.plot(mean_over(runs, label, "losses"), style, color=COLOURS[name], label=f"{name}, {label}")
        ally.plot(mean_over(runs, labels[0], "losses"), color=COLOURS[name], label=name)
    for axis, style, label in zip((ally, adversaries, adversaries), ("-", *styles), labels, strict=False):
        axis.axhline(mean_over(runs, label, "guessing_loss"), ls=style, color="0.7", label=f"guessing, {label}")
    for key, values in found[PRINTED][0]["game"].items():
        game.plot(values, label=key)
    adversaries.set(title="(a) adversaries", xlabel="epoch", ylabel="cross-entropy on test rows")
    ally.set(title="(b) ally", xlabel="epoch")
    game.set(title="(c) the printed game's own losses", xlabel="hundredth of its training")
    for axis in (adversaries, ally, game):
        axis.legend(frameon=False, fontsize=6, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.17))
    return drawn


COLOURS = {"autoencoder": "tab:blue", "PCA": "tab:green", "DP": "tab:olive", PRINTED: "tab:red", OURS: "tab:purple"}


def mean_over(runs: Sequence[Mapping[str, Any]], label: str, key: str) -> Any:
    return np.mean([r["print"][label][key] for r in runs], axis=0)


def curve(data: str, name: str, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    parts = {"adult": lambda: adult_parts(s["rows"], seed, ["sex", "race"]), "titanic": lambda: titanic_parts(seed),
             "mimic_demo": lambda: mimic_parts(seed), "mimic3": lambda: mimic3_parts(seed)}[data]()  # fmt: skip
    release = released(name, parts[0], LABELS[data], seed, s)
    if data == "mimic_demo":  # some thirty rows are too few to attack with
        s = {**s, "attackers": []}
    found = measured(release, parts, seed, s, floor=name == "autoencoder")
    return found | {"game": history(release) if name == PRINTED else {}, "epsilon": getattr(release, "epsilon", None)}


# -- Fig. 16 ------------------------------------------------------------------------------------------


def fig16(run: Run) -> None:
    """The adversary's wish is a function of the ally's: by Prop. 2 the game cannot settle; our warning says so too."""
    found = each_release(run, CODES, interests)
    for name, runs in found.items():
        audits = [r["audit"] for r in runs]
        mean_in_print(run, name, "digit", runs)
        printed = "no separation from PCA or autoencoder" if name == PRINTED else None
        mean_in_print(run, name, "parity", runs, printed, leak=together(audits)["leakage"]["parity"])
        run.audited(f"{name}, l=16", "mnist, digit kept", audits, floor=found["PCA"][0]["audit"])
    for name in (PRINTED, OURS):
        ranges = [np.ptp(r["game"]["encoder"][len(r["game"]["encoder"]) // 2 :]) for r in found[name]]
        words = "does not settle" if name == PRINTED else None
        run.row(name, "encoder loss, range over the last half of training", words, float(np.mean(ranges)))
    warned = [r["warning"] for r in found[OURS]]
    run.note(f'Warning given by `EIGAN.fit`: "{warned[0]}"')
    if len(set(warned)) > 1:
        run.note(f"Seeds that gave no warning: {sum(w == 'none' for w in warned)} of {len(warned)}.")
    run.figure("fig16", three_panels(found, ("digit", "parity")))


def interests(name: str, seed: int, s: Mapping[str, Any]) -> dict[str, Any]:
    data = tacit.load_dataset("mnist", target="digit", sensitive="parity")
    parts = data.take(np.random.default_rng(seed).permutation(len(data))[: sum(s["rows"])]).split(
        s["rows"], random_state=seed
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = fitted(CODES[name](seed, s["epochs"]), parts[0], seed)
    told = [str(w.message) for w in caught if issubclass(w.category, tacit.TacitWarning)]
    game = history(release) if name in (PRINTED, OURS) else {}
    return {
        **measured(release, parts, seed, s, floor=name == "PCA"),
        "game": game,
        "warning": told[0] if told else "none",
    }


CODES: dict[str, Callable[[int, int], Any]] = {
    "autoencoder": lambda seed, epochs: tacit.baselines.Autoencoder(16, epochs=epochs, random_state=seed),
    "PCA": lambda seed, epochs: PCA(16, random_state=seed),
    PRINTED: lambda seed, epochs: tacit.EIGAN.as_printed(16, epochs=5 * epochs, random_state=seed),
    OURS: lambda seed, epochs: tacit.EIGAN(16, epochs=epochs, random_state=seed),
}
