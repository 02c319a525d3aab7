"""What every room stands on: files and folders, devices, downloads, seeds.

Importing it loads no torch.
"""

from relevit.base.device import choose_device, choose_precision
from relevit.base.files import write_atomically
from relevit.base.results import read_rows
