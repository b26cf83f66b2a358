#!/bin/sh
# bootstrap.sh [--deps-only | --no-deps] [--test-tools]
#
# On a fresh Debian, Ubuntu, Fedora or Arch machine: installs what clattn needs, builds the command into ./build, and runs
# it: a rule on an OpenCL device, its time and its error against the reference in double precision; then the same error of
# every rule, a line each. `ctest --preset release` builds the tests, `cmake --build build` the libraries. Other systems:
# install the packages that stand below and give --no-deps. CLATTN_FIRST_RULES names the rules whose errors are shown, in place of
# every rule.
#
#   --deps-only    only install packages
#   --no-deps      install nothing
#   --test-tools   also install what some tests use and are skipped without: a second OpenCL implementation, Oclgrind,
#                  offline compilers for AMD, Intel and NVIDIA, what links and prints AMD's, clang with sanitizers,
#                  clang-format; LLVM's tools, by which
#                  PoCL compiles tests' kernels in less time; for other systems
#                  mingw-w64, wine, a gcc for aarch64, qemu, and in build-tools cJSON's source and zig; lintian and
#                  shells; in build-tools Intel's OpenCL for CPUs, 800 MB under Intel's licence (Debian, Ubuntu)
set -eu

deps=1 build=1 tools=0 begun=0
for option; do
    case $option in
    --deps-only) build=0 ;;
    --no-deps) deps=0 ;;
    --test-tools) tools=1 ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "bootstrap.sh: unknown option $option" >&2; exit 2 ;;
    esac
done
cd "$(dirname "$0")/.."

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

may_install() {
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null
}

# Mirrors fail now and then.
retry() {
    for pause in 5 20 60; do
        "$@" && return
        echo "bootstrap.sh: trying again in $pause s: $*" >&2
        sleep "$pause"
    done
    "$@"
}

apt() {
    retry as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@"
}

# The packages of a list that the distribution has.
apt_known() {
    names=$(apt-cache pkgnames) # once: it takes half a second
    for package; do
        if echo "$names" | grep -qxF "$package"; then
            echo "$package"
        else
            echo "bootstrap.sh: no package $package here; the tests that use it are skipped" >&2
        fi
    done
}

# cJSON's source for targets that have no libcjson: the distribution's own, by lists that are no longer needed after it.
cjson_source() {
    [ ! -e build-tools/cjson/cJSON.c ] || return 0
    mkdir -p build-tools/apt/lists/partial build-tools/apt/parts
    cat /etc/apt/sources.list.d/*.sources 2>/dev/null | sed 's/^Types:.*/Types: deb-src/' >build-tools/apt/parts/all.sources
    cat /etc/apt/sources.list 2>/dev/null | sed -n 's/^deb /deb-src /p' >build-tools/apt/parts/all.list
    (
        cd build-tools/apt
        for words in update "source --download-only cjson"; do
            # shellcheck disable=SC2086 # words
            apt-get -q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$PWD/parts" \
                -o Dir::State::lists="$PWD/lists" -o APT::Sandbox::User=root $words
        done
        mkdir -p ../cjson
        tar -xzf cjson_*.orig.tar.gz --strip-components=1 -C ../cjson
    ) || echo "bootstrap.sh: no source of cJSON here; tests of other systems are skipped" >&2
    rm -rf build-tools/apt
}

# pip install in an environment in build-tools.
pip_install() {
    { [ -e build-tools/python/bin/pip ] || python3 -m venv build-tools/python; } &&
        retry build-tools/python/bin/pip install -q "$@"
}

# zig, a compiler for macOS, Windows and old glibc.
zig_compiler() {
    [ ! -e build-tools/bin/zig ] || return 0
    mkdir -p build-tools/bin
    if pip_install ziglang; then
        ln -sf "$(cd build-tools/bin && echo ../python/lib/python3*/site-packages/ziglang/zig)" build-tools/bin/zig
    else
        echo "bootstrap.sh: no zig here; the tests that use it are skipped" >&2
    fi
}

# Intel's OpenCL for CPUs, AMD's too, which tests find in build-tools/python/lib.
intel_opencl() {
    [ ! -e build-tools/python/lib/libintelocl.so ] || return 0
    pip_install intel-opencl-rt intel-cmplr-lib-rt ||
        echo "bootstrap.sh: no OpenCL of Intel's for CPUs here; the tests that use it are skipped" >&2
}

# Ninja in a new folder, where it is installed
choose_generator() {
    if [ ! -e build/CMakeCache.txt ] && command -v ninja >/dev/null; then
        export CMAKE_GENERATOR=Ninja
    fi
}

# build_command [CMAKE-OPTION…]: configured without what the test tools bring, or with it; of what is not there CMake says
# nothing, for it concerns tests
build_command() {
    cmake --log-level=WARNING --preset release "$@"
    cmake --build --preset release --target clattn_cli --parallel
}

# Build tools: make, too, which `cmake --preset` in a fresh clone asks for where CMAKE_GENERATOR does not say Ninja. OpenCL
# headers, loader and a CPU device (PoCL); xxHash for the cache, cJSON for the command, cmocka for the tests.
install_packages() {
    if command -v apt-get >/dev/null; then
        apt update
        apt install --no-install-recommends cmake ninja-build make gcc libc6-dev binutils pkg-config \
            opencl-c-headers ocl-icd-opencl-dev ocl-icd-libopencl1 pocl-opencl-icd libcjson-dev \
            libxxhash-dev libcmocka-dev
        if [ "$tools" = 1 ]; then
            apt install --no-install-recommends python3-venv python3-pip
            { zig_compiler && intel_opencl; } & # downloads, while apt unpacks
            if [ "$build" = 1 ]; then # so is the command built; what fails is tried again below, and says so there
                choose_generator
                begun=1
                build_command -DCLATTN_BUILD_TESTS=OFF -DCLATTN_BUILD_MPI=OFF >/dev/null 2>&1 &
            fi
            # a machine that loses power here is set up anew
            # shellcheck disable=SC2046 # words
            apt -o Dpkg::Options::=--force-unsafe-io install --no-install-recommends $(apt_known g++ git clang libclang-rt-dev clang-format-14 \
                mesa-opencl-icd libclblast1 libmimalloc2.0 oclgrind intel-opencl-icd clang-19 lld-19 llvm-19 llvm-15 abigail-tools gcc-mingw-w64-x86-64-win32 wine wine64 \
                gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user lintian dpkg-dev man-db zsh fish \
                libopenmpi-dev openmpi-bin \
                python3-numpy python3-torch python3-pyopencl python3-pytest python3-setuptools python3-wheel locales)
            cjson_source
            wait
        fi
    elif command -v dnf >/dev/null; then
        retry as_root dnf install -y cmake ninja-build make gcc pkgconf-pkg-config 'pkgconfig(OpenCL-Headers)' \
            'pkgconfig(OpenCL)' pocl 'pkgconfig(libcjson)' 'pkgconfig(libxxhash)' \
            'pkgconfig(cmocka)'
    elif command -v pacman >/dev/null; then
        retry as_root pacman -Sy --needed --noconfirm cmake ninja make gcc pkgconf opencl-headers ocl-icd pocl cjson xxhash cmocka
    else
        echo "bootstrap.sh: neither apt-get, dnf nor pacman here: install CMake >= 3.21, a C compiler, the OpenCL" \
            "headers and loader, an OpenCL device's driver, cJSON, xxHash and cmocka, and give --no-deps" >&2
        exit 1
    fi
}

if [ "$deps" = 1 ]; then
    if ! may_install; then
        echo "bootstrap.sh: only root installs packages, and there is no sudo: run it as root with --deps-only, then as" \
            "yourself with --no-deps" >&2
        exit 1
    fi
    install_packages
fi
if [ "$build" = 0 ]; then
    exit
fi
choose_generator
if [ "$begun" = 1 ]; then
    build_command -DCLATTN_BUILD_TESTS=ON -DCLATTN_BUILD_MPI=ON
else
    build_command
fi

show() {
    echo "+ clattn $*"
    build/bin/clattn "$@"
}

first=build/first
mkdir -p $first
show devices
show make-input gated_delta_rule --shape B=2,T=1000,H=4,K=64,V=64 -o $first/in.safetensors --clobber
show run gated_delta_rule -i $first/in.safetensors -o $first/out.safetensors --clobber
show run gated_delta_rule -i $first/in.safetensors -o $first/expected.safetensors --clobber --device reference
show diff $first/out.safetensors $first/expected.safetensors
# shellcheck disable=SC2086 # words
show verify ${CLATTN_FIRST_RULES-} --quick --dtype f32 --mode auto
echo "bootstrap.sh: the command is $PWD/build/bin/clattn; README.md goes on from here"
