"""The forms of an object: JSON, YAML and protobuf bodies, patches, typed decoding, tables and field sets.

May import: `kinds`.
"""
