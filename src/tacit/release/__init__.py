"""What leaves the owner's hands: bundles, their runtime, and noise. Names are imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.lazy import attach

_HOME = {
    "Occurrences": "tacit.noise.keyed",
    "Release": "tacit.release.runtime",
    "Quarantined": "tacit.release.runtime",
    "apply": "tacit.release.bulk",
    "arrow_udf": "tacit.release.arrow_columns",
    "sign": "tacit.release.bundle",
}

__all__ = sorted(_HOME)


if TYPE_CHECKING:  # for type checkers and editors; nothing of it is imported
    from tacit.noise.keyed import Occurrences as Occurrences
    from tacit.release.arrow_columns import arrow_udf as arrow_udf
    from tacit.release.bulk import apply as apply
    from tacit.release.bundle import sign as sign
    from tacit.release.runtime import Quarantined as Quarantined
    from tacit.release.runtime import Release as Release
else:
    __getattr__, __dir__ = attach(__name__, _HOME)
