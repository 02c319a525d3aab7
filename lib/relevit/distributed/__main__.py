"""`torchrun -m relevit.distributed`: see `relevit.distributed`."""

import sys

from relevit.distributed.command import main

sys.exit(main())
