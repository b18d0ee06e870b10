"""How a robot's fitness changes when it is computed better, or when its start or its material differ a little."""
