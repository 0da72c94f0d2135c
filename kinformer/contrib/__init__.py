"""Doors to other people's libraries, each behind an extra; nothing in the core imports them."""
