#!/usr/bin/env bash
# check_contributing.sh FOLDER DEVICE: the patches of CONTRIBUTING.md, in copies of this tree below FOLDER: each builds, its rule
# passes on the device and the host's tests pass; and where a part of a word is left out, it does not build.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD folder=$1 device=$2
rm -rf "$folder"
mkdir -p "$folder"
awk -v folder="$folder" '/^```diff$/ { n++; on = 1; next } /^```$/ { on = 0 } on { print > (folder "/" n ".patch") }' CONTRIBUTING.md
export CLATTN_CACHE_DIR='' CLATTN_TUNING='' POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable

copy() { # NUMBER
    mkdir "$folder/$1"
    tar -C "$source" -cf - CMakeLists.txt cmake include src cl tests README.md LICENSE | tar -C "$folder/$1" -xf -
    patch -s -d "$folder/$1" -p1 <"$folder/$1.patch"
    cmake -S "$folder/$1" -B "$folder/$1/build" -DCMAKE_BUILD_TYPE=Debug >/dev/null
}

build() { # NUMBER TARGET…
    local n=$1
    shift
    cmake --build "$folder/$n/build" --parallel 2 --target "$@" >"$folder/$n.log" 2>&1
}

for n in 1 2; do
    copy $n
    build $n clattn_cli test_core test_problem test_reference test_forgets || { tail -n 30 "$folder/$n.log"; exit 1; }
    for test in core problem reference; do
        "$folder/$n/build/bin/test_$test" >"$folder/$n.log" 2>&1 || { tail -n 30 "$folder/$n.log"; exit 1; }
    done
    CLATTN_TEST_DEVICE=reference "$folder/$n/build/bin/test_forgets" >"$folder/$n.log" 2>&1
    rule=$(sed -n 's/^+    \[CLATTN_[A-Z_]*\] = { "\([a-z0-9_]*\)".*/\1/p' "$folder/$n.patch")
    for engine in none nvidia_emulated; do
        CLATTN_ENGINE=$engine "$folder/$n/build/bin/clattn" verify "$rule" --device "$device" --dtype f32,bf16 \
            --shape B=2,T=70,H=2,K=32,V=32
    done
done

# Each part of the word left out
must_not_build() { # WHAT
    if build 2 clattn_static; then
        echo "it builds without $1" >&2
        exit 1
    fi
    echo "without $1: $(grep -m 1 -o 'error: .*' "$folder/2.log")"
}
for file in cl/plain/read_prior.clh cl/matrix/matrix_read_prior.clh; do
    mv "$folder/2/$file" "$folder/kept"
    must_not_build "$file"
    mv "$folder/kept" "$folder/2/$file"
done
cp "$folder/2/src/reference/reference.c" "$folder/kept"
cp src/reference/reference.c "$folder/2/src/reference/"
must_not_build "its case in the reference"
cp "$folder/kept" "$folder/2/src/reference/reference.c"
cp "$folder/2/src/op/words.def" "$folder/kept"
sed -i '/^READ(PRIOR/s/, 1, 0, 0, 0)/, 1, 0, 0)/' "$folder/2/src/op/words.def"
must_not_build "an argument of its row"
sed 's/STORE_GATE, BONUS)/STORE_GATE)/' "$folder/kept" >"$folder/2/src/op/words.def"
must_not_build "what numbers an operand has"
cp src/op/words.def "$folder/2/src/op/"
must_not_build "its row"
cp "$folder/kept" "$folder/2/src/op/words.def"
build 2 clattn_static
rm -rf "${folder:?}"/1 "${folder:?}"/2
