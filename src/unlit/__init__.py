"""unlit sees surfaces without their light: it splits photographs into reflectance and shading.

The names below are the public ones; each is imported when first used, so that `import unlit` costs nothing.
"""

from __future__ import annotations

__version__ = "0.1.0.dev0"
