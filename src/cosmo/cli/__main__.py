"""`python -m cosmo.cli`."""

import sys

from cosmo.cli import main

sys.exit(main())
