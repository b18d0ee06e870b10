"""Where robots meet the outside: files, populations, validation, the commands' work."""
