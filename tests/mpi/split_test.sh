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

split verify short_conv -s B=2,T=37,H=4,V=20 -t f32 -m auto --split tokens || fail "verify"
[ "$(grep -c '^short_conv .* ok$' out)" = 1 ] || fail "verify prints its row once"
split bench short_conv -s B=2,T=37,H=4,V=20 -n 5 --split tokens --json || fail "bench"
[ "$(grep -c '"time_ms"' out)" = 1 ] || fail "bench has one time"

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
