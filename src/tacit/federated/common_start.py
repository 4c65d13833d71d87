"""The common initial filter of PersonalMinimax as plain facts and arrays, so that it can be given to every node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.errors import InputError
from tacit.federated.agreement import agreed_intake
from tacit.federated.protocol import Arrays
from tacit.filters.base import Preparation, finish_fit
from tacit.filters.minimax import MinimaxFilter, learned_filter, linear_net
from tacit.records.encoding import TableEncoder
from tacit.records.fingerprints import Memory
from tacit.records.schema import Column


def tell_start(f: MinimaxFilter) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A linear filter of tables: its columns with their scaling, and its matrix. All of it is of public data.

    Examples
    --------
    >>> import pandas as pd, tacit
    >>> data = tacit.load_dataset("gaussians", n=300)
    >>> X = pd.DataFrame(data.X, columns=["a", "b"])
    >>> f = tacit.MinimaxFilter(1, max_iter=2, random_state=0).fit(X, data.y, sensitive_features=data.sensitive)
    >>> bool((start_of(*tell_start(f)).transform(X) == f.transform(X)).all())
    True
    """
    if not isinstance(f.mechanism_.schema.encoder, TableEncoder):
        raise InputError("the common filter must be one of tables; fit it on a table of named columns")
    columns = [c.to_dict(scaling=True) for c in f.mechanism_.schema.encoder.columns]
    (weight,) = f.encoder_module_.parameters()
    facts = {"columns": columns, "named": hasattr(f, "feature_names_in_")}
    return facts, {"weight": weight.detach().numpy().copy()}


def start_of(facts: Mapping[str, Any], arrays: Arrays) -> MinimaxFilter:
    """The filter that `tell_start` told of."""
    encoder = TableEncoder()
    encoder.columns = tuple(Column.from_dict(c) for c in facts["columns"])
    weight = arrays["weight"]
    if weight.ndim != 2 or weight.shape[1] != encoder.n_out or not np.isfinite(weight).all():
        raise InputError(f"the common filter has a matrix of shape {weight.shape} for {encoder.n_out} encoded columns")
    if len(weight) >= encoder.n_out:
        raise InputError(
            f"the common filter makes {len(weight)} numbers of {encoder.n_out}, which can be undone; it needs fewer"
        )
    f = MinimaxFilter(len(weight))
    f.encoder_module_ = linear_net(weight.T).eval()
    f.n_components_, f.local_dp_, f.history_, f.notes_ = len(weight), None, [], []
    known = Preparation(agreed_intake(f, facts, encoder), Memory(np.empty(0, dtype=np.uint64)))
    finish_fit(f, None, learned_filter(f, f.encoder_module_), known)
    return f
