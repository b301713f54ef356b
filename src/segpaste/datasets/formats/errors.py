"""Error of all readers of datasets."""


class DatasetError(ValueError):
    """Error of a missing, unreadable or invalid file of a dataset; one line with the file and the remedy."""
