"""What an exploration adds to a program while it plays: marks of its requests, and ends of its process.

They keep no state. `marks` adds headers that the explored server reads, `places` adds a header for stories, and `exits`
turns the calls that would end the interpreter into the end of a simulated process.

Tests: tests/explore/test_ends.py, tests/explore/test_explore.py.
"""
