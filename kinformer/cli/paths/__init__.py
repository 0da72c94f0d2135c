"""Paths into objects, and templates of them, in kubectl's dialect of JSONPath.

Reading order: json_path, template.
"""
