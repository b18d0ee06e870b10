"""The ground floor: JAX and GPU tools that every engine shares. Nothing here knows about robots."""
