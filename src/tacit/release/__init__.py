"""What leaves the owner's hands."""
