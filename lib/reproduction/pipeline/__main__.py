"""`python -m reproduction.pipeline PRESET`."""

import sys

from reproduction.pipeline.run import main

sys.exit(main())
