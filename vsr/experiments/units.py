"""Units of the measures, for people."""

UNITS = {
    "travel_velocity": "m/s",
    "relative_velocity": "1/s",
    "average_height": "m",
    "average_squared_control": "",
    "broken_springs": "",
}
