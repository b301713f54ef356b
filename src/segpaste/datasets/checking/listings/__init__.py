"""What the files, or the samples, of a dataset hold: images, annotations, and the problems of their files."""
