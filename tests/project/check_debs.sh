#!/usr/bin/env bash
# check_debs.sh OUTPUT CC…: Debian's packages are made (77 without dpkg's tools or file) and pass lintian without errors, if there is one;
# unpacked together they have the command and all that an example needs to be built.
set -euo pipefail
output=$1
shift
for tool in dpkg-deb dpkg-shlibdeps file; do # file: cpack asks it which programs depend on libraries
    command -v $tool >/dev/null || { echo "no $tool"; exit 77; }
done
cd "$(dirname "$0")/../.."
source=$PWD build=$output/build
rm -rf "$output"
mkdir -p "$output"
cmake --preset deb -B "$build" >"$output/configure.log"
cmake --build "$build" --parallel 2 >"$output/build.log" || { tail -20 "$output/build.log"; exit 1; }
(cd "$build" && umask 022 && cpack -G DEB >"$output/cpack.log") || { cat "$output/cpack.log"; exit 1; }
packages=("$build"/*.deb)
[ ${#packages[@]} = 3 ]

for package in "${packages[@]}"; do
    dpkg-deb -x "$package" "$output/root"
    dpkg-deb -f "$package" Package Version Depends
done
dpkg-deb -f "$build"/libclattn0*.deb Depends | grep -q libcjson1
dpkg-deb -f "$build"/libclattn-dev*.deb Depends | grep -q 'libclattn0.*(= '
if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error "${packages[@]}"
else
    echo "no lintian: the packages are not checked"
fi

export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$output/root" -name clattn.pc)")
libdir=$(dirname "$(find "$output/root" -name 'libclattn.so.0*' | head -1)")
# shellcheck disable=SC2046 # words
"$@" -std=c11 "$source/examples/reference_only/main.c" $(pkg-config --cflags --libs clattn) -o "$output/example"
LD_LIBRARY_PATH=$libdir "$output/example"
LD_LIBRARY_PATH=$libdir "$output/root/usr/bin/clattn" rules linear_attn >/dev/null
