"""Pascal VOC datasets: their folders, XML files and label maps, read into samples."""
