"""Twelve small operators, each with one classic bug and without it: what `explore` must find, and must not."""
