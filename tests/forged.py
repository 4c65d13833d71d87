"""Bundles with right hashes and other content."""

from __future__ import annotations

import json

from tacit.release.bundle import digest, read_bundle, write_members
from tacit.release.manifest import hashed
from tacit.release.trust import local_mac


def forged(path, out, manifest=None, *, ours=True, **members):
    """A copy of a bundle with other members (`model_onnx=`, ...) and a manifest that was changed by a function.

    `ours`: with the MAC of this user, so that what is checked behind it is reached.
    """
    bundle = read_bundle(path, trust=True)
    kept = {n: bundle.members[n] for n in hashed(bundle.manifest)}
    kept |= {name.replace("_", ".", 1): data for name, data in members.items()}
    said = {k: v for k, v in json.loads(json.dumps(bundle.manifest)).items() if k != "members"}
    said = manifest(said) if manifest else said
    said["members"] = {n: {"sha256": digest(data), "bytes": len(data)} for n, data in kept.items()}
    text = json.dumps(said).encode()
    mac = {"local.mac": local_mac(text)} if ours else {}
    return write_members(out, {"manifest.json": text, **kept, **mac})
