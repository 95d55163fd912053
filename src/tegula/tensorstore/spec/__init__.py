"""Specs of arrays, and what a driver is."""
