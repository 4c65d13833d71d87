"""The audit: attackers trained afresh on released data, and certificates for finite releases."""
