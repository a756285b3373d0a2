"""Helpers that know nothing of tasks."""
