"""How long a bundle may be used: a date in its manifest, after which whoever runs it is warned, or refused.

A certificate belongs to a population, and populations move. Standard library alone: devices check it too.
"""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Mapping
from typing import Any

from tacit.errors import BundleError, InputError, TacitWarning


def today() -> datetime.date:
    """The day it is, by this machine's clock."""
    return datetime.date.today()


def expiry_date(asked: str | datetime.date | None) -> str | None:
    """The last day of use, of a date or of a number of days from now.

    Examples
    --------
    >>> expiry_date("2999-02-01"), expiry_date(None)
    ('2999-02-01', None)
    """
    if asked is None or asked == "never":
        return None
    if isinstance(asked, datetime.datetime):
        asked = asked.date()
    days = re.fullmatch(r"(\d{1,5})d", str(asked).strip())
    try:
        last = today() + datetime.timedelta(int(days[1])) if days else datetime.date.fromisoformat(str(asked).strip())
    except (ValueError, OverflowError):
        raise InputError(
            f"expires must be a date such as 2027-02-01, days such as 90d, or never; found {asked!r}"
        ) from None
    if last < today():
        raise InputError(f"expires is {last}, which is over already; name a day from {today()} on")
    return last.isoformat()


def is_expired(manifest: Mapping[str, Any]) -> bool:
    """Whether a bundle's last day is over; one without a date never expires."""
    last = manifest.get("expires")
    return last is not None and today() > datetime.date.fromisoformat(last)


def check_expiry(manifest: Mapping[str, Any], name: str, refuse: bool = False) -> None:
    """Warn where a bundle's last day is over; raise where that was asked for."""
    if not is_expired(manifest):
        return
    said = (
        f"{name} expired on {manifest['expires']} (today is {today()}): its figures belong to the people of its audit, "
        f"and nobody has said since that they still hold. Audit it on new rows (tacit audit) and save it anew"
    )
    if refuse:
        raise BundleError(said)
    warnings.warn(said, TacitWarning, stacklevel=3)
