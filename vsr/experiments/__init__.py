"""Where robots and search meet: experiments, run folders, commands."""
