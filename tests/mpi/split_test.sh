#!/bin/sh
# split_test.sh CLATTN DEVICE NUMBER-OPTION MPIRUN…: `mpirun -n 2 clattn … --split` writes what one process writes, prints
# once, and says an error of one rank in one line.
set -eu
program=$1 device=$2 number=$3
shift 3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() { echo "FAILED: $*" >&2; cat out err >&2; exit 1; }
two="$* $number 2" ranks_program=$program
# shellcheck disable=SC2086
split() { $two $ranks_program "$@" -d "$device" >out 2>err; }

# A rule whose kernels compile fast
"$program" make-input short_conv -s B=2,T=37,H=4,V=20 --initial-state -o in.safetensors
"$program" run short_conv -i in.safetensors -o expected.safetensors -d reference -q
for split in tokens heads batch; do
    split run short_conv -i in.safetensors -o $split.safetensors --split $split || fail "run --split $split"
    [ "$(grep -c "$split.safetensors: 74 tokens" err)" = 1 ] || fail "run --split $split says so once"
    "$program" diff $split.safetensors expected.safetensors >out 2>err || fail "run --split $split: other outputs"
done

# Gradients: of the weights, which all ranks have, the sum over ranks
"$program" make-input short_conv -s B=2,T=37,H=4,V=20 --initial-state --option pass=backward -o back.safetensors
"$program" run short_conv -i back.safetensors -o expected_back.safetensors --option pass=backward -d reference -q
for split in tokens batch; do
    split run short_conv -i back.safetensors -o back_$split.safetensors --option pass=backward --split $split ||
        fail "run --split $split backward"
    "$program" diff back_$split.safetensors expected_back.safetensors >out 2>err ||
        fail "run --split $split backward: other outputs"
done

# What is not finite is counted over all ranks' parts, and what all have once
python3 - in.safetensors nan.safetensors <<'END'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
start = 8 + struct.unpack_from("<Q", data)[0]
header = json.loads(data[8:start])
for name, elements in {"v": (0, 5, 37 * 80 - 1), "w": (3,)}.items():
    for i in elements:
        struct.pack_into("<f", data, start + header[name]["data_offsets"][0] + 4 * i, float("nan"))
open(sys.argv[2], "wb").write(data)
END
split run short_conv -i nan.safetensors -o out.safetensors --split tokens || fail "run with numbers that are not finite"
grep -q "tensor 'v' is not finite at 3 of its 5920 elements" err && grep -q "tensor 'w' is not finite at 1 of" err &&
    [ "$(grep -c 'is not finite' err)" = 2 ] || fail "a warning of all ranks"
rm out.safetensors

split verify short_conv -s B=2,T=37,H=4,V=20 -t f32 -m auto --split tokens || fail "verify"
[ "$(grep -c '^short_conv .* ok$' out)" = 1 ] || fail "verify prints its row once"
for split in tokens heads batch; do
    split bench short_conv -s B=2,T=37,H=4,V=20 -n 5 --split $split --json || fail "bench --split $split"
    [ "$(grep -c '"time_ms"' out)" = 1 ] || fail "bench --split $split has one time"
done

# Errors: of all ranks, of the library, and of one rank, whose folder has no input
says()
{
    what=$1
    shift
    if split "$@"; then fail "$what: succeeds"; fi
    [ "$(grep -c '^clattn: ' err)" = 1 ] && grep -q "^clattn: .*$what" err || fail "one line: $what"
}
says 'no-such-file' run short_conv -i no-such-file -o out.safetensors --split tokens
says 'cut by heads' bench retention -s B=1,T=8,H=2,K=4,V=4 --split heads
device=reference says 'OpenCL device' verify gla --split tokens
mkdir elsewhere
cat >one_elsewhere <<END
cd elsewhere
[ "\${OMPI_COMM_WORLD_RANK:-\${PMI_RANK:-1}}" = 1 ] || cd ..
exec "$program" "\$@"
END
ranks_program="sh $folder/one_elsewhere"
says 'rank 1: in.safetensors' run short_conv -i in.safetensors -o out.safetensors --split tokens
[ ! -e out.safetensors ] || fail "an output is written though a rank failed"
