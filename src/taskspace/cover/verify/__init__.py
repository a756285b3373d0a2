"""Proving again what a cover claims."""
