"""Where robots and search meet: experiments, run folders, commands."""

from vsr.display import provide

provide("vsr.experiments.notebook")
