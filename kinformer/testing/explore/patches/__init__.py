"""What an exploration adds to a program while it plays: marks of its requests, and ends of its process.

They own nothing. `marks` writes headers that the explored server reads, `places` one for stories, and `exits` turns the
calls that would end the interpreter into the end of a simulated process.
"""
