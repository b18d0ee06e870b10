"""Run folders: written so that a kill loses nothing, read for plots, comparisons and everything after."""
