"""`vsr evaluate`: robots in other tasks, on other grounds and with faults."""
