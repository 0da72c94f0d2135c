# No names: each module has its own, with the extra that it needs.
