"""Free rigid objects that robots push and that push back."""

from vsr.physics.objects.balls import Balls, BallState

__all__ = ["BallState", "Balls"]
