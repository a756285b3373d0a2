"""Exports of a policy library, one file each."""
