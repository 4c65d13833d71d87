"""Bundles as a stranger would make them: right hashes, other content."""

from __future__ import annotations

import json

from tacit.release.bundle import digest, read_bundle, write_members
from tacit.release.manifest import hashed


def forged(path, out, manifest=None, **members):
    """A copy of a bundle with other members (`model_onnx=`, ...) and a manifest that was changed by a function."""
    bundle = read_bundle(path)
    kept = {n: bundle.members[n] for n in hashed(bundle.manifest)}
    kept |= {name.replace("_", ".", 1): data for name, data in members.items()}
    said = {k: v for k, v in json.loads(json.dumps(bundle.manifest)).items() if k != "members"}
    said = manifest(said) if manifest else said
    said["members"] = {n: {"sha256": digest(data), "bytes": len(data)} for n, data in kept.items()}
    return write_members(out, {"manifest.json": json.dumps(said).encode(), **kept})
