"""Models: JSON as instances of a type, and objects that have one."""
