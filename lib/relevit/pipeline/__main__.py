"""`python -m relevit.pipeline PRESET`."""

import sys

from relevit.pipeline.run import main

sys.exit(main())
