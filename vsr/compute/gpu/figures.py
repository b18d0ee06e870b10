"""Figures of the GPU for which layouts are estimated: an H200. Others differ, and so does the best layout, a little."""

MULTIPROCESSORS = 132
REGISTERS = 65536
"""of a multiprocessor"""
SHARED_IN_ALL = 228 * 1024
"""shared memory of a multiprocessor [bytes]"""
SHARED_OVERHEAD = 1024
"""of it, what every program costs besides what it asks for [bytes]"""
