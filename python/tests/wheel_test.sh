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
cd "$work"
venv/bin/python example.py
venv/bin/python -m clattn rules gla | grep -q '^gla'
