"""Simulates several processes in one, in virtual time, with separate event loops and clocks and a network."""
