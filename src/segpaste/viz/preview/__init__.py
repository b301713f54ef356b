"""Page on which the options of a paste are tried on a dataset; `segpaste preview` serves it."""
