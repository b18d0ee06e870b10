"""Reports: one page about one or several runs, for any browser."""
