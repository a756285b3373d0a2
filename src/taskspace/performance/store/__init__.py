"""Where trainings are kept, by what they are: in memory, or in a directory."""

MANIFEST = "manifest.jsonl"
"""The manifest of a directory."""
