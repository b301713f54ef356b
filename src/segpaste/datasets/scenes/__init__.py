"""Synthetic rooms of spheres, boxes and textured planes with exact ground truth for every modality.

The default data of the demo, the documentation and the tests, without a download and in any size and number. Instance,
panoptic and semantic labels, metric depth, normals and intrinsics agree with one another to float32 precision. Scenes
are rendered by casting rays in NumPy. Scene i of seed s is a pure function of (s, i) and has the same bytes on every
machine. Not for training a model for real images.

    >>> sample = SceneDataset(100, seed=1)[42]
    >>> batch = scene_batch(4, max_instances=16)
"""

from segpaste.datasets.scenes._geometry import Box, Material, Patch, Plane, Scene, Solid, Sphere
from segpaste.datasets.scenes._rooms import SceneConfig
from segpaste.datasets.scenes.dataset import SceneDataset, SceneSchema, render_scene, scene_batch

__all__ = [
    "Box",
    "Material",
    "Patch",
    "Plane",
    "Scene",
    "SceneConfig",
    "SceneDataset",
    "SceneSchema",
    "Solid",
    "Sphere",
    "render_scene",
    "scene_batch",
]
