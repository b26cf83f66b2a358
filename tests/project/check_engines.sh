#!/usr/bin/env bash
# check_engines.sh: every test that docs/engines.md names is there, and every row of test_nodes that has a name its line in the page.
set -euo pipefail
cd "$(dirname "$0")/../.."
bad=0
complain() {
    echo "$1" >&2
    bad=1
}
names=$(sed -n 's/^|[^|]*|[^|]*| *\([^|]*\) |$/\1/p' docs/engines.md | grep -o '`[^`]*`' | tr -d '`' | sort -u)
while read -r name; do
    case $name in
    nodes | states) continue ;;
    test_*) grep -q "^static void $name(" tests/op/test_states.c || complain "docs/engines.md: there is no $name" ;;
    ggml*) grep -qF "GGML($(sed 's/^ggml //; s/,/, /g' <<<"$name"))," tests/op/test_nodes.c || complain "docs/engines.md: test_nodes has no row $name" ;;
    *) grep -qF "{\"$name\"," tests/op/test_nodes.c || complain "docs/engines.md: test_nodes has no row $name" ;;
    esac
done <<<"$names"
while read -r name; do
    grep -qxF "$name" <<<"$names" || complain "docs/engines.md does not name the row $name"
done < <(sed -n 's/^    {"\([a-z0-9_]*\)",.*/\1/p' tests/op/test_nodes.c)
exit $bad
