"""`torchrun -m relevit.distributed`: see `relevit.distributed`."""

import sys

from relevit.distributed.finetuning import main

sys.exit(main())
