# paths_test.sh CLATTN: what the command does to its output paths: links, modes, pipes, devices, full disks; and the width of
# what it prints.
# No path given to it is outside of the test's own folder: devices are reached through links there.
clattn=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail()
{
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# make OUT: 1336 bytes and a header, the same every time
make()
{
    "$clattn" make-input gated_delta_rule --shape T=4,H=2,K=8,V=8 -o "$1"
}

# refused WHAT WORD COMMAND…: exits with 1 or 2, one line with WORD
refused()
{
    what=$1 word=$2
    shift 2
    "$@" >stdout 2>stderr
    status=$?
    [ $status -eq 1 ] || [ $status -eq 2 ] || fail "$what: exit status $status"
    [ "$(wc -l <stderr)" -eq 1 ] || fail "$what: not one line: $(cat stderr)"
    grep -q "$word" stderr || fail "$what: '$word' is not in: $(cat stderr)"
}

make plain || fail "a plain file"

# ---- links --------------------------------------------------------------------------------------------------------

mkdir sub
echo before >sub/target
ln -s sub/target link
ln -s link link2
ln -s ../made sub/far
make link2 || fail "a link to a link"
cmp -s plain sub/target || fail "the link's target is not written"
[ -L link ] && [ -L link2 ] || fail "a link is replaced"
make sub/far || fail "a dangling link"
cmp -s plain made || fail "the dangling link's target is not made"
[ -L sub/far ] || fail "the dangling link is replaced"
ln -s loop loop2
ln -s loop2 loop
refused "a loop" 'loop: .*[Ll]evels of symbolic links\|loop: .*[Ss]ymbolic link loop' make loop
"$clattn" run gated_delta_rule -i plain -o link --device reference || fail "run to a link"
[ -L link ] && ! cmp -s plain sub/target || fail "run does not write the link's target"
refused "a folder" "sub: .*Is a directory" make sub

# ---- modes --------------------------------------------------------------------------------------------------------

for mode in 640 600 664; do
    chmod $mode made
    make made || fail "mode $mode"
    [ -n "$(find made -perm $mode)" ] || fail "mode $mode is now $(ls -l made)"
done
chmod 400 made
if [ "$(id -u)" -eq 0 ]; then # root writes what it likes
    make made || fail "root and mode 400"
    [ -n "$(find made -perm 400)" ] || fail "mode 400 is now $(ls -l made)"
else
    refused "mode 400" "made: .*Permission denied" make made
fi

# ---- what is no regular file --------------------------------------------------------------------------------------

mkfifo pipe
cat pipe >got &
reader=$!
make pipe && [ -p pipe ] || { fail "a pipe"; kill $reader; }
wait $reader
cmp -s plain got || fail "a pipe's reader gets something else"
ln -s /dev/stdout out
make out | cat >got
cmp -s plain got || fail "standard output, a pipe"
{ printf head; make out; printf tail; } >got
{ printf head; cat plain; printf tail; } | cmp -s - got || fail "standard output, a file"
[ -L out ] || fail "the link to standard output is replaced"
if [ -c /dev/full ]; then
    ln -s /dev/full full
    refused "a full device" "full: .*No space left" make full
    [ -L full ] && [ -c full ] || fail "the link to the full device is replaced"
fi

# ---- standard input and output, pipes -------------------------------------------------------------------------------

# run_in IN OUT OPTIONS…: what `plain` is the input of
run_in()
{
    in=$1 out=$2
    shift 2
    "$clattn" run gated_delta_rule -i "$in" -o "$out" --device reference "$@"
}
run_in plain expected || fail "run"
make - >got && cmp -s plain got || fail "make-input to standard output"
make - | run_in - - | cat >got
cmp -s expected got || fail "run from standard input to standard output"
make - | run_in /dev/stdin got && cmp -s expected got || fail "run from a pipe by its name"
cat plain >pipe &
writer=$!
run_in pipe got && cmp -s expected got || { fail "run from a named pipe"; kill $writer; }
wait $writer
run_in - got <plain && cmp -s expected got || fail "run from standard input, a file"
"$clattn" diff - expected <got >stdout || fail "diff of standard input: $(cat stdout)"
refused "diff of standard input and itself" "both files are standard input" "$clattn" diff - - <got
[ -e ./- ] && fail "a file is called -"
head -c 1000 plain >cut
refused "a stream that ends early" "standard input: cannot read its [0-9]* bytes of data: it ends after [0-9]*$" run_in - out9 <cut
echo >>got
refused "a stream that goes on" "standard input: it goes on after its [0-9]* bytes of data" run_in - out9 <got
printf abc >cut
refused "a stream of three bytes" "standard input: the file has less than 8 bytes" run_in - out9 <cut
# a header that promises 2^50 bytes of data costs no memory for them
header='{"q":{"dtype":"U8","shape":[1125899906842624],"data_offsets":[0,1125899906842624]}}'
{ printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%sabc" "$header"; } >cut
refused "a stream that promises too much" "it ends after 3$" run_in - out9 <cut
refused "a folder as input" "sub: is a folder" run_in sub out9
[ -e out9 ] && fail "what is refused leaves an output"
if [ -c /dev/full ]; then
    refused "a full device as standard output" "standard output: cannot write" sh -c '"$1" run gated_delta_rule -i plain -o - --device reference >full' sh "$clattn"
fi
if command -v script >/dev/null; then
    script -qec "'$clattn' run gated_delta_rule -i plain -o - --device reference" /dev/null >got </dev/null
    grep -q 'standard output is a terminal' got || fail "tensors on a terminal"
fi

# ---- memory, and devices that are not there -----------------------------------------------------------------------------

header='{"q":{"dtype":"U8","shape":[1073741824],"data_offsets":[0,1073741824]}}'
{ printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"; } >large
dd if=/dev/zero of=large bs=1 count=0 seek=$((1073741824 + 8 + ${#header})) 2>/dev/null
if (ulimit -v 500000 && "$clattn" --version) >stdout 2>&1; then # sanitizers want more to begin with
    (ulimit -v 500000 && run_in large out9) 2>stderr
    [ $? -eq 1 ] && grep -q 'large: no memory for 1073741824 bytes of data' stderr || fail "no memory: $(cat stderr)"
fi
rm -f large
"$clattn" make-input gla -s T=40000,H=16,K=64,V=64 -o large || fail "make-input of 160 MB"
if (ulimit -v 800000 && "$clattn" --version) >stdout 2>&1; then
    (ulimit -v 800000 && "$clattn" run gla -i large -o out9 --device reference) 2>stderr
    [ $? -eq 1 ] && grep -q 'large: no memory for the 163840000 bytes of o' stderr || fail "no memory for outputs: $(cat stderr)"
fi
rm -f large
CLATTN_CACHE_DIR='' OCL_ICD_VENDORS="$work/sub" "$clattn" run gated_delta_rule -i plain -o got 2>stderr || fail "no device: $(cat stderr)"
[ "$(wc -l <stderr)" -eq 2 ] && [ "$(head -n 1 stderr)" = "clattn: warning: no usable OpenCL device, using the reference on the CPU" ] || fail "no device: $(cat stderr)"

# ---- --no-clobber, --quiet ----------------------------------------------------------------------------------------------

cp plain kept
refused "run --no-clobber" "kept: exists, and --no-clobber is given" run_in plain kept --no-clobber
refused "make-input --no-clobber" "kept: exists, and --no-clobber is given" \
    "$clattn" make-input kda -s T=4,H=2,K=8,V=8 -o kept --no-clobber
ln -s kept to_kept
refused "--no-clobber through a link" "to_kept: exists" run_in plain to_kept --no-clobber
cmp -s plain kept || fail "--no-clobber does not keep"
run_in plain new --no-clobber && cmp -s expected new || fail "--no-clobber of a new file"
"$clattn" make-input kda -s T=4,H=2,K=8,V=8 -o other || fail "kda"
"$clattn" run kda -i other -o new --device reference || fail "run kda"
sed 's/"rule":"kda"/"mule":"kda"/' other >unnamed # no rule is named, and beta is not used
"$clattn" run gla -i unnamed -o new --device reference 2>stderr || fail "run without a rule's name"
grep -q "warning: unnamed: tensor 'beta' is not used" stderr || fail "nothing to be quiet of: $(cat stderr)"
"$clattn" run gla -i unnamed -o new --device reference -q 2>stderr || fail "run -q"
[ -s stderr ] && fail "-q: $(cat stderr)"
refused "--quiet and --verbose" "quiet and --verbose" run_in plain new -q -v
refused "-q of what is wrong" "no such: No such file" run_in "no such" new -q
"$clattn" diff -q new expected >stdout
[ $? -eq 1 ] && [ ! -s stdout ] || fail "diff -q: $(cat stdout)"

# Who types the command is asked; a script is not
if command -v script >/dev/null; then
    # asked ANSWER OPTIONS…: run to kept with a terminal; what it printed in got
    asked() {
        answer=$1
        shift
        (sleep 1; printf '%s\n' "$answer") | script -qec "'$clattn' run gated_delta_rule -i plain -o kept --device reference $*" /dev/null >got
    }
    cp plain kept
    asked n && fail "n is a success"
    grep -q 'kept exists; replace it? \[y/N\]' got && grep -q 'kept: not replaced' got || fail "asked, n: $(cat got)"
    cmp -s plain kept || fail "n replaces the file"
    asked y || fail "asked, y: $(cat got)"
    cmp -s expected kept || fail "y does not replace the file: $(cat got)"
    cp plain kept
    asked n --clobber || fail "--clobber: $(cat got)"
    cmp -s expected kept && ! grep -q 'replace it' got || fail "--clobber asks: $(cat got)"
fi

# ---- the tuning file ----------------------------------------------------------------------------------------------

printf '{"format": "clattn tuning", "version": 2, "entries": []}' >table.json
export CLATTN_TUNING="$work/table.json"
"$clattn" tune --export out >got || fail "export to standard output"
grep -q '"clattn tuning"' got || fail "an export to standard output prints nothing"
"$clattn" tune --export exported || fail export
cmp -s got exported || fail "two exports differ"
if [ -c /dev/full ]; then
    refused "export to a full device" "full: .*No space left" "$clattn" tune --export full
fi
refused "export to a folder" "sub: .*Is a directory" "$clattn" tune --export sub
mkdir dotfiles
mv table.json dotfiles/real.json
chmod 640 dotfiles/real.json
ln -s dotfiles/real.json table.json
"$clattn" tune --import exported >got || fail "import into a link"
[ -L table.json ] || fail "the link to the tuning file is replaced"
cmp -s dotfiles/real.json exported || fail "the tuning file behind the link is not written"
[ -n "$(find dotfiles/real.json -perm 640)" ] || fail "the tuning file's mode is lost: $(ls -l dotfiles/real.json)"

# No room for the tuning file: a limit of the file's size in the disk's place.
full()
{
    {
        (trap '' XFSZ && ulimit -f 0 && exec "$@") 2>&1
        echo $? >code
    } | cat >&2
    return "$(cat code)"
}
refused "a full disk" "table.json: .*File too large" full "$clattn" tune --import exported
cmp -s dotfiles/real.json exported || fail "a full disk costs the tuning file"
refused "a full disk" "made: .*File too large" full "$clattn" make-input kda --shape T=4,H=2,K=8,V=8 -o made
cmp -s plain made || fail "a full disk costs the output's file"
for file in ./*.tmp ./*/*.tmp; do
    [ -e "$file" ] && fail "left behind: $file"
done

# ---- 80 columns ---------------------------------------------------------------------------------------------------

narrow()
{
    awk 'length > 80 { print; wide = 1 } END { exit wide || !NR }' || fail "$1 does not fit 80 columns"
}
"$clattn" --help | narrow "--help"
for command in $("$clattn" --help | sed -n 's/^  clattn \([a-z-]*\) .*/\1/p'); do
    "$clattn" "$command" --help | narrow "$command --help"
done
"$clattn" rules >rules
narrow rules <rules
"$clattn" rules --csv | tail -n +2 | cut -d, -f1 >names
while read -r name; do
    grep -q "^$name  *[A-Za-z]" rules || fail "rules lacks $name: $(cat rules)"
done <names
# shellcheck disable=SC2046 # words
"$clattn" rules $(cat names) | narrow "rules of every name"
# A message is one line, which can be searched, but on a terminal, where it is broken between words.
if command -v script >/dev/null; then
    words="'$clattn' run gated_delta_product -i plain -o a_file_that_is_never_written.safetensors"
    sh -c "$words" 2>whole
    [ "$(wc -l <whole)" -eq 1 ] && [ "$(wc -c <whole)" -gt 81 ] || fail "not a long line: $(cat whole)"
    script -qec "stty cols 80; $words" /dev/null </dev/null | tr -d '\r' >terminal
    narrow "a message" <terminal
    [ "$(wc -l <terminal)" -eq 2 ] && [ "$(tr -s '\n ' ' ' <terminal)" = "$(cat whole) " ] ||
        fail "a message on a terminal: $(cat terminal)"
fi
[ $failures -eq 0 ]
