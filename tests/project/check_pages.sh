#!/usr/bin/env bash
# check_pages.sh: every relative link of a Markdown page leads to a file, and its #anchor to a heading there. README.md's
# times are those of bench/results.
set -euo pipefail
cd "$(dirname "$0")/../.."
bad=0
complain() {
    echo "$1" >&2
    bad=1
}

# The anchors of a page, as GitHub makes them of its headings
anchors() {
    sed -n 's/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

count=0
for page in *.md docs/*.md bench/*.md bench/results/*.md cl/README.md cl/*/README.md cmake/packaging/README.md; do
    folder=$(dirname "$page")
    while read -r link; do
        count=$((count + 1))
        file=${link%%#*} anchor=
        [ "$file" = "$link" ] || anchor=${link#*#}
        target=$page
        [ -z "$file" ] || target=$folder/$file
        if [ ! -e "$target" ]; then
            complain "$page links to $link, which is not there"
        elif [ -n "$anchor" ] && ! anchors "$target" | grep -qxF -e "$anchor"; then
            complain "$page links to $link, and $target has no such heading"
        fi
    done < <(sed '/^```/,/^```/d; s/`[^`]*`//g' "$page" | grep -o '\](\([^)]*\))' | sed 's/^](//; s/)$//' | grep -v '^[a-z]*:' || true)
done
[ "$count" -ge 80 ] || complain "$count links are few"

rows=0
while read -r times; do
    rows=$((rows + 1))
    grep -qF "$times" bench/results/*.md || complain "README.md has the times $times, which no page of bench/results has"
done < <(sed -n 's/^| .*[^0-9]\(| [0-9.]* | [0-9.]* | [0-9.]* |\) .*/\1/p' README.md)
[ "$rows" -ge 5 ] || complain "README.md has $rows rows of times, which are few"
exit $bad
