"""Square masses as one GPU kernel that keeps a robot on chip through all substeps and intervals."""
