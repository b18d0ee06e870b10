"""Which simulations can be believed: hard robots by the thousand, each looked at by a second pair of eyes."""
