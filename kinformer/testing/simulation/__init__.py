"""Several processes in one, in virtual time: event loops, clocks and a network between them."""
