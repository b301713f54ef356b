"""Rules about other tools, one file a tool, and the traits of annotations and images that they are about."""
