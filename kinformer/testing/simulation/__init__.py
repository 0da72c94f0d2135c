"""Simulates several processes in one, in virtual time, with separate event loops and clocks and a network.

Reading order: processes, loop, network. Then what a program calls beside its loop: sealed, calls, holders, refusals.
"""
