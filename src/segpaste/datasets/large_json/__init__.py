"""Large annotation files in JSON, read row by row through an index of byte positions.

- `text`: the bytes of a file, and the positions of the top-level values and of their rows, found without parsing.
- `index`: ids and texts in arrays, and index files in the cache folder of the user.
- `file`: annotation file with its digest, its index, and its tables, decoded block by block.

Not for small label files, which are read at construction, see `segpaste.datasets.formats.format`.
"""
