"""Designing a robot on a page that this computer alone can open: draw, play, save."""
