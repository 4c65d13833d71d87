"""eNTERFACE'05: subject 1/anger/sentence 1/s1_an_1.avi and so on -> 52 statistics of MFCCs a sentence."""

from __future__ import annotations

from tacit.datasets.publishers.pack import Pack, counted, npz
from tacit.datasets.publishers.source import Source
from tacit.datasets.speech import PACKED, clips, sentences
from tacit.datasets.where import WHERE
from tacit.errors import InputError


def pack_enterface(source: Source) -> Pack:
    """The inputs that `load_dataset` would compute at every start."""
    if not source.path.is_dir() or not clips(source.path):
        raise InputError(
            f"{source.path} has no recording such as subject 1/anger/sentence 1/s1_an_1.avi; get {WHERE['enterface']}"
        )
    X, emotion, speaker = sentences(source.path)
    return Pack(
        f"{len(X):,} sentences of {len(set(speaker)):,} speakers: {counted(emotion)}",
        {PACKED: npz(features=X, emotion=emotion, speaker=speaker)},
    )
