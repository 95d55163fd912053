"""Specs of arrays, and the interface of drivers."""
