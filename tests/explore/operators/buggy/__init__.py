"""Operators with one bug each, which each exploration has to find: each is a function that declares a world."""
