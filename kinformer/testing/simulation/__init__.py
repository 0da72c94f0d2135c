"""Simulates several processes in one, in virtual time, with separate event loops and clocks and a network.

Reading order: processes, loop, network. Then the calls that do not go through a loop: sealed, calls, holders, refusals.
Tests: tests/explore/test_simulation.py, tests/explore/test_simulation_refusals.py, tests/leaderelection.
"""
