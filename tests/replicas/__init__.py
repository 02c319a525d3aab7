"""Small data sets and weights in the formats of the published ones: for tests, and `make rehearse`.

`WRITERS` has a writer for each image set of the catalogue; it gives what it wrote, by part.
"""

from functools import partial

from replicas.cifar import write_cifar
from replicas.folders import FOLDERS, write_folders
from replicas.gtsegs import write_gtsegs
from replicas.imagenet_s import write_imagenet_s
from replicas.objectnet import write_objectnet

WRITERS = {
    **{key: partial(write_folders, key) for key in FOLDERS},
    **{key: partial(write_cifar, key) for key in ("cifar10", "cifar100")},
    "gtsegs": write_gtsegs,
    "imagenet_s": write_imagenet_s,
    "objectnet": write_objectnet,
}
