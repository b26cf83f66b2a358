# check_bootstrap.sh SOURCE: which packages cmake/bootstrap.sh asks the package managers of Fedora and Arch for, and what it
# says where there is none, or nobody who may install. The managers here only note what they are asked.
source=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0

fail()
{
    echo "FAILED: $*"
    failures=$((failures + 1))
}

mkdir -p "$work/tree/cmake" "$work/tools"
cp "$source/cmake/bootstrap.sh" "$work/tree/cmake"
for tool in sh dirname sed cat env sleep; do
    ln -s "$(command -v $tool)" "$work/tools/$tool"
done

# program NAME TEXT: a program that is found in PATH
program()
{
    printf '#!/bin/sh\n%s\n' "$2" >"$work/tools/$1"
    chmod +x "$work/tools/$1"
}

# bootstrap: its exit status is in status, what it says in out, what the managers were asked in asked
bootstrap()
{
    : >"$work/asked"
    PATH="$work/tools" sh "$work/tree/cmake/bootstrap.sh" --deps-only >"$work/out" 2>&1
    status=$?
}

# asked WHAT BEGINNING: bootstrap.sh is content, and asked once, by a line that begins so, for each thing that the build needs
asked()
{
    bootstrap
    [ $status -eq 0 ] || fail "$1: exit status $status, $(cat "$work/out")"
    [ "$(wc -l <"$work/asked")" -eq 1 ] || fail "$1: not asked once: $(cat "$work/asked")"
    grep -q "^$2 " "$work/asked" || fail "$1: '$2' is not how it was asked: $(cat "$work/asked")"
    for need in cmake 'ninja(-build)?' make gcc 'pkgconf(-pkg-config)?' '(pkgconfig\(OpenCL-Headers\)|opencl-headers)' \
        '(pkgconfig\(OpenCL\)|ocl-icd)' pocl '(pkgconfig\(libcjson\)|cjson)' '(pkgconfig\(libxxhash\)|xxhash)' \
        '(pkgconfig\(cmocka\)|cmocka)'; do
        grep -qE " $need( |$)" "$work/asked" || fail "$1: $need is not among $(cat "$work/asked")"
    done
}

program id 'echo 0'
bootstrap
[ $status -eq 1 ] && grep -q 'neither apt-get, dnf nor pacman here: install CMake' "$work/out" || fail "no manager: $status, $(cat "$work/out")"
program dnf "echo \"dnf \$*\" >>'$work/asked'"
asked Fedora 'dnf install -y'
program id 'echo 1000'
bootstrap
[ $status -eq 1 ] && grep -q 'no sudo: run it as root with --deps-only' "$work/out" && [ ! -s "$work/asked" ] ||
    fail "no sudo: $status, $(cat "$work/out" "$work/asked")"
program sudo 'exec "$@"'
asked "Fedora by sudo" 'dnf install -y'
rm "$work/tools/dnf"
program pacman "echo \"pacman \$*\" >>'$work/asked'"
asked Arch 'pacman -Sy --needed --noconfirm'
[ $failures -eq 0 ]
