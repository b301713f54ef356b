"""The formats of banks: one protocol, one record, one writer, and a file for each format."""
