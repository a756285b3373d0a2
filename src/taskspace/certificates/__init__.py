"""Certificates: what is proven about the space between and around grid points."""
