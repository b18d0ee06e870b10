"""Settings of Sphinx for docs/build.py."""

project = "VSR"
html_title = "VSR: voxel-based soft robots in JAX"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
suppress_warnings = ["toc.not_included", "misc.highlighting_failure"]
html_theme = "furo"
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
