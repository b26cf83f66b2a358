#!/bin/sh
# tree.sh FOLDER LIBPOCL SHARE [LLVM-EXTRACT [C++]]: PoCL as a driver of FOLDER/vendors, with those functions of OpenCL C that
# kernels call. For each program PoCL parses the declarations of all functions, in 0.08 s, and for each context it reads
# their bodies, in 0.5 s: more than most kernels of the tests take. The library and the compiler are the installed ones, and
# what is declared is declared as there. A function that is not named here is an error of the compiler or of PoCL's linker,
# which names it. With a compiler of C++ the driver is uniformity.cpp in front of the library, whose layout it must know.
set -eu
folder=$1 libpocl=$2 share=$3 extract=${4:-} cxx=${5:-}
known=719857939a42a2521147ea3a035d56caae41ad1e2630e7036b6ea70bf253b60c # PoCL 3.1-3+deb12u1 for amd64

functions="abs barrier clamp clz cos cospi exp exp2 expm1 fabs floor fma fmax fmin get_global_id get_global_offset
get_global_size get_group_id get_local_id get_local_size get_num_groups get_work_dim isinf isnan log log1p log2 mad max
mem_fence min mix mul_hi native_exp2 rint rsqrt select sin sinpi sqrt tanh
vload2 vload4 vload8 vload16 vstore2 vstore4 vstore8 vstore16"
# By patterns: to and from half, of all address spaces and widths; casts; conversions that do not name a rounding
halves='vloada?_half[0-9]*|vstorea?_half[0-9]*(_rte)?'
conversions='convert_(float|u?int|u?short)[0-9]*'

library=$folder/lib/x86_64-linux-gnu # PoCL finds share by its own path
rm -rf "$folder"
mkdir -p "$library" "$folder/share/pocl/include" "$folder/vendors"
ln -s "$libpocl" "$(dirname "$libpocl")/pocl" "$library"
ln -s "$share"/*.bc "$folder/share/pocl"
ln -s "$share"/include/* "$folder/share/pocl/include"

# Declarations stand in lines of their own, each with an attribute; conditions may be continued.
any=$(echo $functions | tr ' ' '|')
rm "$folder/share/pocl/include/opencl-c.h"
sed -nE -e ':line' -e '/\\$/{N;s/\\\n/ /;b line' -e '}' -e '/^[ \t]*#/p' \
    -e "/(__ovld|__attribute__|__cnfn|__purefn).*[ )]($any|as_[a-z0-9]+|$halves|$conversions)\(.*;/p" \
    "$share/include/opencl-c.h" >"$folder/share/pocl/include/opencl-c.h"

# Names in the library have the length of a function's name ahead of it, and PoCL's prefix: 3exp or 7_cl_exp.
named=
for function in $functions; do
    length=${#function}
    named="$named$length$function|$((length + 4))_cl_$function|"
done
for level in avx2 avx512; do # what CPUs of the last ten years have; others keep the whole
    bodies=kernel-x86_64-pc-linux-gnu-$level.bc
    if [ -n "$extract" ] && [ -e "$share/$bodies" ]; then
        rm "$folder/share/pocl/$bodies"
        "$extract" --recursive --rglob='.*' "$share/$bodies" -o "$folder/share/pocl/$bodies" \
            --rfunc="^_Z($named[0-9]+(_cl_)?($halves)[DPUdfm]|[0-9]+(_cl_)?$conversions(Dv|[a-z]\$))|^_*pocl|printf"
    fi
done

driver=$library/$(basename "$libpocl")
llvm=$(dirname "$libpocl")/libLLVM-15.so.1
if [ -n "$cxx" ] && [ -e "$llvm" ] && echo "$known  $libpocl" | sha256sum -c --status; then
    ln -s "$(basename "$libpocl")" "$library/libpocl.so.2"
    "$cxx" -O2 -shared -fPIC -o "$library/libuniformity.so" "$(dirname "$0")/uniformity.cpp" \
        -Wl,--no-as-needed "$library/libpocl.so.2" "$llvm" -Wl,-rpath,"$library"
    driver=$library/libuniformity.so
else
    echo "tree.sh: no compiler of C++, or another build of PoCL: large kernels compile slowly" >&2
fi

for icd in /etc/OpenCL/vendors/*.icd; do
    case $(cat "$icd") in
    *libpocl*) echo "$driver" >"$folder/vendors/pocl.icd" ;;
    *) ln -s "$icd" "$folder/vendors" ;;
    esac
done
