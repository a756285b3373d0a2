"""A library on trial, beside what one could do instead."""
