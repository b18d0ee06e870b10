"""Studies: experiments that answer a question together, from their files to figures and a report."""
