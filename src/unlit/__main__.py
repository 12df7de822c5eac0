"""`python -m unlit` is the command line."""

from unlit.cli import main

if __name__ == "__main__":
    main()
