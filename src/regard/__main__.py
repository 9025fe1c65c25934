"""python -m regard"""

import sys

from regard.cli import main

if __name__ == "__main__":
    sys.exit(main())
