"""`vsr verify`: does the score in a robot's file hold?"""
