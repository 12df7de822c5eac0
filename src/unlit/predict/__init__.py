"""From a photograph, a folder of them or a video to reflectance and shading: everything around the network."""
