"""`tacit.save`: export a fitted filter, compare the export with the filter, and write the bundle."""

from __future__ import annotations

import base64
import importlib.metadata
import json
import math
import platform
import warnings
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import safetensors.numpy
from sklearn.utils.validation import check_is_fitted

from tacit import __version__
from tacit.errors import InputError, TacitWarning
from tacit.files import replacing
from tacit.filters.base import Filter
from tacit.noise.keyed import Bounded, Finite
from tacit.records.intake import Intake
from tacit.records.schema import TableSchema, schema_of
from tacit.release.answer import Answerer
from tacit.release.bundle import digest, read_bundle, write_bundle
from tacit.release.keys import binding, key_folder, proof, write_keys
from tacit.release.manifest import ANALYZER, ENCODER, expiry_date
from tacit.release.onnx import export, export_analyzer, record_bytes
from tacit.release.runtime import Release
from tacit.report.plain_data import plain_parameter

CLOSE = 1e-5  # of the output's scale
AGREE = 0.999  # of codes
MADE_ROWS = 2000
LIBRARIES = ("numpy", "torch", "scikit-learn", "lightgbm", "onnx", "onnxruntime", "pandas")
NO_AUDIT = (
    "# {name}\n\nThis filter was saved without an audit: nothing is known about what its releases give away. "
    "Audit it before use: `tacit audit {file} --data ...`\n"
)


def save(
    f: Filter,
    path: str | Path,
    report: Any = None,
    *,
    analyzer: Any = None,
    expires: str | date | None = None,
    keys: str | Path | None = None,
) -> Path:
    """Write a fitted filter as a bundle that runs without training libraries.

    The exported graph is run on made-up records beside the filter; where they differ nothing is written.

    Parameters
    ----------
    f : a fitted filter
    path : the file to write, NAME.tacit
    report : the filter's `tacit.audit`, which becomes the bundle's model card; by default that of
        `Frontier.choose`, where the filter comes from there
    analyzer : what a service answers with from releases (`tacit serve`): a `tacit.serve.Analyzer`, such as
        `tacit.serve.fit_analyzer` gives, or True for the filter's own cloud half (DPFE). None: no service
    expires : the last day of use, such as "2027-02-01", or days from now, such as "90d"; whoever runs the bundle later
        is warned, or refused where they ask for it. None: it never expires
    keys : a folder for the owner's keys (and that of the noise), which are written before the bundle gets its name;
        never one that is handed over. None: they stay in the filter

    Examples
    --------
    >>> import tempfile, tacit
    >>> data = tacit.load_dataset("quadrants", n=400)
    >>> f = tacit.baselines.LinearARL().fit(data.X, data.y, sensitive_features=data.sensitive)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tacit.save(f, f"{folder}/plane.tacit").name
    'plane.tacit'
    """
    path = Path(path)
    if path.suffix != ".tacit":
        raise InputError(f"a bundle is called NAME.tacit; found {path.name!r}")
    if not isinstance(f, Filter):
        raise InputError(f"only Tacit's filters can be saved as a bundle; found a {type(f).__name__}")
    check_is_fitted(f)
    report = getattr(f, "report_", None) if report is None else report
    model, encoder, weights = export(f.mechanism_)
    manifest = _manifest(f) | {"expires": expiry_date(expires), "record_bytes": record_bytes(model)}
    plain = {k: np.ascontiguousarray(v).reshape(np.shape(v) or (1,)) for k, v in weights.items()}
    card = NO_AUDIT.format(name=type(f).__name__, file=path.name)
    if report is not None:
        card = f"{report.to_markdown()}\nFilter: {type(f).__name__}. File: {path.name}.\n"
    members = {
        "model.onnx": model,
        "weights.safetensors": safetensors.numpy.save(plain),
        "audit.json": json.dumps(None if report is None else report.to_dict()).encode(),
        "card.md": card.encode(),
    }
    if encoder is not None and f.noise_key is not None:
        members[ENCODER] = encoder
        manifest["noise"]["proof"] = proof(f.noise_key, binding(manifest, digest(model), digest(encoder)))
    answers = analyzer
    if analyzer is True:
        from tacit.release.analyzer import Analyzer  # only an analyzer needs torch

        if f.mechanism_.cloud is None:
            raise InputError(
                f"{type(f).__name__} has no cloud half of its own; pass analyzer=tacit.serve.fit_analyzer(f, data)"
            )
        answers = Analyzer(*f.mechanism_.cloud)
    if answers is not None:
        members[ANALYZER] = export_analyzer(answers.module, tuple(manifest["output"]["shape"]), answers.sizes)
        manifest["analyzer"] = answers.describe()
    # written beside its place, read back by the runtime, compared, and only then given its name
    with replacing(path) as made:
        write_bundle(made, manifest, members)
        release = Release(read_bundle(made, trust=True), f.noise_key)
        compare(f, release)
        if answers is not None:
            compare_analyzer(answers, release, made_records(f.mechanism_.schema, 200))
        if keys is not None:
            write_keys(key_folder(path, keys), release.manifest, owner=f.owner_key, noise=f.noise_key)
    return path


def compare(f: Filter, release: Release, X: Any = None) -> float:
    """Raise unless the bundle releases what the filter does; returns the largest difference, relative to the scale."""
    m = f.mechanism_
    X = made_records(m.schema) if X is None else X
    if m.noise is not None and not m.noise.added:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TacitWarning)  # made-up records are unlike anybody's
            expected, found = f.transform(X), release.transform(X)
        if m.columns is not None:
            return _compare_tables(pd.DataFrame(expected), found)
    else:
        expected, found = m.noiseless(X), release.noiseless(X)
    expected = np.asarray(expected, dtype=np.float64)
    if expected.shape != found.shape:
        raise InputError(
            f"the exported graph gives shape {found.shape}, the filter {expected.shape}; nothing was saved"
        )
    if isinstance(m.support, Finite):
        close = np.abs(expected - found) <= CLOSE
        # a mask is many choices, a code is one: two pixels of nearly one score may change places in single precision
        what = "pixels" if close.ndim == 4 else "records"
        same = float((close if close.ndim == 4 else close.reshape(len(close), -1).all(axis=1)).mean())
        if same < AGREE:
            raise InputError(f"the exported graph agrees with the filter on {same:.2%} of {what}; nothing was saved")
        return 1 - same
    # relative to the largest value of each released number
    scale = np.maximum(np.abs(expected).max(axis=0), 1e-12)
    apart = float((np.abs(expected - found) / scale).max())
    if not apart <= CLOSE:
        raise InputError(
            f"the exported graph differs from the filter by {apart:.1e} of the output's scale (allowed {CLOSE:g}); "
            f"nothing was saved"
        )
    return apart


def _compare_tables(expected: pd.DataFrame, found: pd.DataFrame) -> float:
    """Raise unless two released tables have the same cells, but for draws at the very edge of single precision."""
    same = (expected == found) | (expected.isna() & found.isna())
    share = float(same.all(axis=1).mean())
    if list(expected.columns) != list(found.columns) or share < AGREE:
        raise InputError(f"the exported graph agrees with the filter on {share:.2%} of records; nothing was saved")
    return 1 - share


def compare_analyzer(analyzer: Any, release: Release, X: Any) -> None:
    """Raise unless the exported analyzer answers as the given one does, on releases of these records."""
    Z = release.noiseless(X)
    apart = np.abs(Answerer(release._bundle).probabilities(Z) - analyzer.probabilities(Z)).max()
    if not apart <= CLOSE:
        raise InputError(f"the exported analyzer differs from the given one by {apart:.1e} (allowed {CLOSE:g}); "
                         f"nothing was saved")  # fmt: skip


def made_records(intake: Intake, n: int = MADE_ROWS, seed: int = 0) -> Any:
    """Records that fit the schema but are nobody's: numbers in their range, all categories, gaps, unknown text."""
    schema, rng = schema_of(intake.declared.to_dict()), np.random.default_rng(seed)
    if isinstance(schema, TableSchema):
        made = pd.DataFrame(schema.made_up(n, rng)).assign(**{name: np.arange(n) for name in intake.carried})
        return intake.possible(made)
    return schema.made_up(max(8, min(n, 2**22 // math.prod(schema.shape))), rng)


def _manifest(f: Filter) -> dict[str, Any]:
    m, names = f.mechanism_, [str(n) for n in f.get_feature_names_out()]
    # what a differentially private fit has spent, in the place of what it was asked to
    spent = {"dp": f.dp_.to_dict()} if hasattr(f, "dp_") else {}
    return {
        "filter": type(f).__name__,
        "parameters": {k: plain_parameter(v) for k, v in f.get_params(deep=False).items()} | spent,
        "input": m.schema.declared.to_dict(),
        "output": _output(f, m, names),
        "noise": None
        if m.noise is None
        else asdict(m.noise)
        | {
            "mechanism": m.noise.mechanism.hex(),
            "radius": m.support.radius if isinstance(m.support, Bounded) else None,
        },
        "sketch": _sketch(f),
        "min_people": f.min_people,
        "versions": {
            "tacit": __version__,
            "python": platform.python_version(),
            **{n: importlib.metadata.version(n) for n in LIBRARIES if _installed(n)},
        },
        "analyzer": None,
    }


def _sketch(f: Filter) -> dict[str, Any] | None:
    """The fit's rows under the owner's key; None where the filter knows of no row, or not under which looks."""
    memory = f.mechanism_.memory
    found = None if memory is None else memory.sketch(f.owner_key)
    return None if found is None else {"looks": found[0], "entries": base64.b64encode(found[1]).decode()}


def _output(f: Filter, m: Any, names: list[str]) -> dict[str, Any]:
    """What comes out: numbers; a row of a table; or a table, each column a value of its own."""
    about = (type(f).__doc__ or "").strip().splitlines() or [type(f).__name__]
    plain: dict[str, Any] = {
        "names": names,
        "codes": m.support.codes if isinstance(m.support, Finite) else None,
        "table": None,
    }
    plain |= {"types": None, "carried": {}}
    if m.columns is not None:
        said = f"{about[0]} {len(names)} columns for each record; few values are changed."
        table = [_listed(c.values) for c in m.columns]
        more = {"types": [c.released_type for c in m.columns], "carried": dict(m.schema.carried)}
        return {**plain, "shape": [len(table)], "meaning": said, "table": table, **more}
    if m.table is not None:
        said = f"{about[0]} Each record is released as one of {len(m.table)} typical records."
        table = [_listed(m.table.iloc[:, i]) for i in range(m.table.shape[1])]
        return {**plain, "shape": [1], "meaning": said, "table": table}
    shape = list(m.noiseless(made_records(m.schema, 8)).shape[1:])
    said = f"{about[0]} {math.prod(shape)} numbers for each record, shape {tuple(shape)}."
    return {**plain, "shape": shape, "meaning": said}


def _listed(column: pd.Series) -> list[Any]:
    return [None if pd.isna(v) else _plain(v) for v in column]


def _plain(value: Any) -> Any:
    if isinstance(value, pd.Timedelta):
        return value.total_seconds()
    if isinstance(value, pd.Timestamp):
        return (value.tz_convert("UTC").tz_localize(None) if value.tz else value).isoformat()
    return value.item() if isinstance(value, np.generic) else value


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
        return True
    except importlib.metadata.PackageNotFoundError:
        return False
