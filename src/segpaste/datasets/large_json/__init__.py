"""Large annotation files in JSON, read row by row through an index of byte positions.

- `source`: the bytes of a file, by position.
- `scan`: the positions of the top-level values and of their rows, found without parsing.
- `tables`: rows of a table, decoded block by block.
- `store`: index files in the cache folder of the user.
- `file`: annotation file with its digest and its index.
- `columns`: ids and texts in arrays.

Not for small label files, which are read at construction, see `segpaste.datasets.formats.records`.
"""
