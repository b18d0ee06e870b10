"""The world around a robot: its description, its arrays, and how everything in it moves together."""
