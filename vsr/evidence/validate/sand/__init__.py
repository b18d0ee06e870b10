"""Proof by numbers: grains against Coulomb, conservation laws, Janssen and Beverloo; bodies and robots among them."""
