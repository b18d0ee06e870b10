"""Following a run while it evolves, on a page that this computer alone can open."""
