"""python -m regard"""

import sys

try:
    from regard.cli import main

    if __name__ == "__main__":
        sys.exit(main())
except KeyboardInterrupt:  # while it was read
    sys.exit(130)
