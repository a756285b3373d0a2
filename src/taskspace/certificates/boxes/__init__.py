"""Whole boxes of contexts: bounds, the search for covers, and their check."""
