"""Networks that decompose images, and what they give."""
