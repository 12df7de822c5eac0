"""Rendered scenes whose answer is known: reflectance, and the irradiance of each light alone."""
