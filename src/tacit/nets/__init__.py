"""Small networks."""
