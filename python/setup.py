"""The wheel's tag: any Python 3, and the platform that the library was built for."""
import platform

from setuptools import setup
from wheel.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        kind, version = platform.libc_ver()
        name = super().get_tag()[2]
        if kind == "glibc" and name.startswith("linux_"):
            name = f"manylinux_{version.replace('.', '_')}_{name.removeprefix('linux_')}"
        return "py3", "none", name


setup(cmdclass={"bdist_wheel": Wheel})
