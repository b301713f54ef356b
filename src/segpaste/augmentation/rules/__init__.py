"""Conversion of configs to the integers and tables that an engine takes."""
