"""The work under the figures: curves of several models of one original network, rebuilt images, costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tacit
from papers.common.noise_curve import noise_curve
from tacit.auditing.likeness import r_squared, reconstruction
from tacit.auditing.measurements.baseline import labels_alone
from tacit.auditing.measures import mean_measure
from tacit.auditing.stats import accuracy
from tacit.nets.cut import cut_network
from tacit.nets.forward import forward
from tacit.records.dataset import Dataset, allot
from tacit.training.device import choose_device

from .data import in_time, keeping, of_many, parts_of
from .decoder import rebuild
from .models import ALIKE, OURS, PRINTED, SIMPLE, answers, fitted, for_attributes, learn, original
from .tiny_darknet import tiny_darknet

CELEBA_IMAGE = (3, 218, 178)  # what the authors' network takes


def study(
    data: str, cut: str, kept: Sequence[Sequence[str]], models: Sequence[str], seed: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """By attribute set and model the curve over the noise, and what the original network says; one original for all."""
    parts = parts_of(data, seed, settings)
    network = original(parts[0], seed, settings) if settings["network"] == "darknet" else None
    out: dict[str, Any] = {"records": [len(p) for p in parts], "device": where(settings)}
    for names in kept:
        train, attack, test = (keeping(p, names) for p in parts)
        given = None if network is None else for_attributes(network, list(parts[0].y.columns), names)
        found: dict[str, Any] = {}
        for model in models:
            f = fitted(model, given, cut or None, train, seed, settings)
            found[model] = columns(
                noise_curve(f, attack, test, settings["ratios"], attackers=settings["attackers"],
                            draws=settings["draws"], seed=seed)
            )  # fmt: skip
        found["original"] = said(f, attack, test)
        out[" + ".join(names)] = found
    return out


def whole(data: str, kept: Sequence[str], seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """The control of "no accuracy is lost": the original, uncut, fine-tuned on the same attributes for as long."""
    parts = parts_of(data, seed, settings)
    train, _, test = (keeping(p, kept) for p in parts)
    network = for_attributes(original(parts[0], seed, settings), list(parts[0].y.columns), kept)
    network.to(choose_device(settings["device"]))
    classes = [c.cat.categories for _, c in train.y.astype("category").items()]
    codes = [c.cat.codes.to_numpy() for _, c in train.y.astype("category").items()]
    learn(network, np.asarray(train.X, np.float32), codes, settings["epochs"], ALIKE["batch_size"], seed)
    logits = np.split(forward(network.cpu().eval(), np.asarray(test.X, np.float32)), 2 * np.arange(1, len(kept)), 1)
    right = np.mean([c[p.argmax(1)] == test.y[t] for c, p, t in zip(classes, logits, kept, strict=True)], axis=0)
    of = mean_measure(right, float("nan"), test.units_of(), 0.95)
    return {"value": of.value, "low": of.low, "high": of.high}


def said(f: Any, attack: Dataset, test: Dataset) -> dict[str, Any]:
    """The network before it was cut and given a small code: its accuracy, and what its answers alone keep and leak."""
    told, truth = answers(f, f.network_, test), test.y
    right = np.mean([c[g] == truth[t].to_numpy() for c, g, t in zip(f.classes_, told.T, truth, strict=True)], axis=0)
    of = mean_measure(right, float("nan"), test.units_of(), 0.95)
    kept, leaked = labels_alone(answers(f, f.network_, attack).astype(float), attack, told.astype(float), test)
    plain = {
        k: {"value": r.value, "low": r.low, "high": r.high, "guessing": r.guessing} for k, r in (kept | leaked).items()
    }
    return {"value": of.value, "low": of.low, "high": of.high, "label_only": plain}


def tuning(data: str, tried: Sequence[Sequence[float]], seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Each pair of weight and margin on parts of the training part alone: the curves, with Simple's."""
    train, _, _ = parts_of(data, seed, settings)
    if data == "motionsense":
        part, fresh = train.split((0.6, 0.4), random_state=seed)
        parts = (part, *in_time(fresh, 0.6))
    else:
        share = allot(pd.factorize(train.sensitive.iloc[:, 0])[0], np.array([0.5, 0.3, 0.2]), seed)
        parts = (of_many(train.take(share == 0), 2), train.take(share == 1), train.take(share == 2))
    network = original(parts[0], seed, settings) if settings["network"] == "darknet" else None
    kept = settings["kept"]
    learn, attack, test = (keeping(p, kept) for p in parts)
    given = None if network is None else for_attributes(network, list(train.y.columns), kept)
    out = {}
    for beta, margin in [(0.0, 0.0), *tried]:
        more = {"beta": beta, "margin": margin} if beta else {}
        f = fitted(OURS if beta else SIMPLE, given, settings["cut"] or None, learn, seed, settings, **more)
        out[f"{beta:g}, {margin:g}" if beta else SIMPLE] = columns(
            noise_curve(f, attack, test, settings["ratios"], attackers=settings["attackers"], draws=settings["draws"],
                        seed=seed)
        )  # fmt: skip
    return out


def rebuilt(cut: str, kept: Sequence[str], seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Images from the chosen layer of the network as it was, and from the codes at the same layer.

    By a decoder network and by ridge; and how many of the decoder's images are named by a classifier of raw ones.
    """
    parts = parts_of("faces", seed, settings)
    network = for_attributes(original(parts[0], seed, settings), list(parts[0].y.columns), kept)
    train, attack, test = (keeping(p, kept) for p in parts)
    codes = {model: fitted(model, network, cut, train, seed, settings) for model in (PRINTED, OURS)}
    whole = codes[OURS]  # both began with the same network
    layer = cut_network(whole.network_, cut).client
    inputs = [whole.encoder_.transform(np.asarray(d.X, dtype=float)) for d in (attack, test)]
    releases = {"original layer": [forward(layer, x).reshape(len(x), -1) for x in inputs]}
    releases |= {f"{model}, code": [f.transform(d.X) for d in (attack, test)] for model, f in codes.items()}
    who = [pd.factorize(d.sensitive["person"], sort=True)[0] for d in (attack, test)]
    named = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(_flat(attack.X), who[0])
    out: dict[str, Any] = {"named": _named(named, test.X, who[1])}
    for name, (za, zt) in releases.items():
        drawn = rebuild(za, attack.X, zt, settings["decoder_epochs"], seed, choose_device(settings["device"]))
        error, total = (_flat((test.X - x) ** 2).sum(axis=1) for x in (drawn, np.mean(attack.X, axis=0)))
        r2 = r_squared(error, total, np.arange(len(test)), 0.95)
        ridge = reconstruction(za, attack.X, zt, test.X).r2
        out[name] = {"r2": list(r2[:3]), "ridge": list(ridge[:3]), "named": _named(named, drawn, who[1])}
    return out


def costs(repeats: int, seed: int) -> list[dict[str, Any]]:
    """Of every cut of the authors' network with their images, on one core."""
    torch.manual_seed(seed)
    network = tiny_darknet(CELEBA_IMAGE, 40).eval()
    return tacit.profile(network, np.zeros((1, *CELEBA_IMAGE)), repeats).to_dict("records")


def columns(curve: pd.DataFrame) -> dict[str, list[Any]]:
    """A curve by its columns, in four digits: results.json is kept in the project."""
    return {str(c): [round(v, 4) if isinstance(v, float) else v for v in curve[c].tolist()] for c in curve}


def where(settings: dict[str, Any]) -> str:
    return torch.cuda.get_device_name() if choose_device(settings["device"]).type == "cuda" else "CPU"


def _named(model: Any, images: np.ndarray, who: np.ndarray) -> list[float]:
    return list(accuracy(who, model.predict(_flat(images)), None, 0.95))


def _flat(images: np.ndarray) -> np.ndarray:
    return np.asarray(images).reshape(len(images), -1)
