"""Run the command line: `python -m cosmo`."""

import sys

from cosmo.cli import main

sys.exit(main())
