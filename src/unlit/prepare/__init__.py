"""From videos and folders of pictures to sequences to learn from: `unlit prepare`. docs/data.md is for its users."""
