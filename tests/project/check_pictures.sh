#!/bin/sh
# check_pictures.sh CLATTN SOURCE: the commands that docs/rules.md shows for its pictures make them again, byte by byte.
clattn=$1
source=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/docs"
cd "$work" || exit 1

sed -n 's/^    clattn \(.* picture\.[a-z]*\( .*\)\{0,1\}\)$/\1/p' "$source/docs/rules.md" >commands
while read -r command; do
    # shellcheck disable=SC2086 # words
    "$clattn" $command || exit 1
done <commands
count=$(ls docs | wc -l)
[ "$count" -ge 2 ] || { echo "docs/rules.md has $count commands that plot to docs/, expected 2"; exit 1; }
for picture in docs/*; do
    cmp "$picture" "$source/$picture" || { echo "$picture is not what the commands of docs/rules.md make"; exit 1; }
    grep -q "(${picture#docs/})" "$source/docs/rules.md" || { echo "docs/rules.md does not show $picture"; exit 1; }
done
