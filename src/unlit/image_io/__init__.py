"""Every picture format in and out: orientation, bit depth, encoding, alpha, layers, clear errors.

What is read and written, and how each file's encoding is known, is set down in docs/formats.md.
"""

from unlit.image_io.format import WRITABLE_SUFFIXES
from unlit.image_io.image import MAX_PIXELS, Encoding, FailedImageError, Image, ImageError
from unlit.image_io.reading import check_image, read_image
from unlit.image_io.writing import write_encoded, write_image

__all__ = [
    "MAX_PIXELS",
    "WRITABLE_SUFFIXES",
    "Encoding",
    "FailedImageError",
    "Image",
    "ImageError",
    "check_image",
    "read_image",
    "write_encoded",
    "write_image",
]
