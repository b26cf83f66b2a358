"""clattn's package for Conan 2: `conan create cmake/packaging/conan`; with -o "&:system=True" cJSON, xxHash and the headers of
OpenCL are the system's, and nothing is fetched."""
import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class ClattnConan(ConanFile):
    name = "clattn"
    license = "MIT"
    description = "Linear attention for every OpenCL device"
    topics = ("opencl", "attention")
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "command": [True, False], "system": [True, False]}
    default_options = {"shared": True, "fPIC": True, "command": True, "system": False}
    implements = ["auto_shared_fpic"]
    languages = ["C"]

    def _root(self):
        return os.path.join(self.recipe_folder, os.pardir, os.pardir, os.pardir)

    def set_version(self):
        header = load(self, os.path.join(self._root(), "include", "clattn.h"))
        self.version = ".".join(re.findall(r"#define CLATTN_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "README.md", "CHANGELOG.md", "cl/*", "cmake/*", "include/*", "src/*"):
            copy(self, pattern, self._root(), self.export_sources_folder)

    def requirements(self):
        if not self.options.system:
            self.requires("cjson/[>=1.7.15 <2]")
            self.requires("xxhash/[>=0.8 <1]")
            self.requires("opencl-headers/[>=2021]")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["CLATTN_BUILD_TESTS"] = False
        toolchain.cache_variables["CLATTN_BUILD_CLI"] = bool(self.options.command)
        toolchain.cache_variables["CLATTN_WERROR"] = False
        infos = [dependency.cpp_info for dependency in self.dependencies.values()]
        if infos:
            toolchain.cache_variables["CMAKE_INCLUDE_PATH"] = ";".join(path for info in infos for path in info.includedirs)
            toolchain.cache_variables["CMAKE_LIBRARY_PATH"] = ";".join(path for info in infos for path in info.libdirs)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        self.cpp_info.set_property("cmake_find_mode", "none")  # the package has its own clattn-config.cmake
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "clattn")]
        self.cpp_info.libs = ["clattn"]
        if not self.options.shared:
            self.cpp_info.defines = ["CLATTN_STATIC"]
            self.cpp_info.system_libs = ["dl", "m", "pthread"] + (["cjson"] if self.options.system else [])
