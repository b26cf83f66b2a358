"""The wheel's tag: any Python 3, and the platform that the library was built for, from the version of glibc on that its
binaries need."""
import pathlib
import re

from setuptools import setup
from wheel.bdist_wheel import bdist_wheel


def oldest_glibc(folder):
    """The latest of the versions that symbols of the folder's binaries have, as "2_34"; None without glibc."""
    versions = {tuple(map(int, version)) for path in folder.iterdir() if path.is_file() and path.suffix != ".py"
                for version in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", path.read_bytes())}
    return "_".join(map(str, max(versions))) if versions else None


class Wheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        version = oldest_glibc(pathlib.Path(__file__).parent / "clattn")
        name = super().get_tag()[2]
        if version is not None and name.startswith("linux_"):
            name = f"manylinux_{version}_{name.removeprefix('linux_')}"
        return "py3", "none", name


setup(cmdclass={"bdist_wheel": Wheel})
