"""Correct operators, which no exploration may blame: each is a function that declares a world."""
