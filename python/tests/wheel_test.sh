#!/bin/sh
# wheel_test.sh PYTHON STAGED PAGE: makes the wheel of the staged package, installs it into a new environment, and runs
# there, in a folder without the source, the first Python example of the page and the command.
set -eu
python=$1 staged=$2 page=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH
cp -r "$staged" "$work/staged"
"$python" -m pip -q wheel --no-build-isolation --no-deps --no-index -w "$work/wheel" "$work/staged"
"$python" -m venv --system-site-packages "$work/venv"
"$work/venv/bin/python" -m pip -q install --no-deps --no-index "$work"/wheel/clattn-*-py3-none-*.whl
awk '/^```python/ { on = 1; next } /^```/ { if (on) exit } on' "$page" >"$work/example.py"
[ -s "$work/example.py" ]
# the wheel is for machines with the glibc that its binaries need, not for those with this machine's alone
for file in "$work"/wheel/*manylinux_*; do
    needed=$(grep -aohE 'GLIBC_[0-9]+\.[0-9]+' "$work"/staged/clattn/libclattn.so "$work"/staged/clattn/clattn |
        sort -uV | tail -n 1 | sed 's/GLIBC_//; s/\./_/')
    case $file in *manylinux_"$needed"_*) ;; *) echo "$file needs glibc $needed"; exit 1 ;; esac
done
cd "$work"
venv/bin/python example.py
venv/bin/python -m clattn rules gla | grep -q '^gla'
