"""Inputs that nobody would type: files and command lines made from sound ones by changes at random."""
