#!/bin/sh
# check_commands.sh FOLDER-OF-CLATTN PAGE: the commands that PAGE shows behind "    $ clattn" succeed, one after the other
# in an empty folder, and what it shows below them has the columns that they print.
page=$2
PATH=$1:$PATH
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

sed -n 's/^    \$ \(clattn .*\)$/\1/p' "$page" >commands
while read -r command; do
    echo "$command"
    $command >>printed || exit 1
done <commands
count=$(wc -l <commands)
[ "$count" -ge 4 ] || { echo "$page shows $count commands, expected 4"; exit 1; }

# Numbers and what follows from them differ from device to device; names, types, shapes and results do not.
sed -n 's/^    \([a-z_]*  *[A-Z0-9]*  *\[[0-9,]*\]\) .*ok .*$/\1/p' "$page" >shown
[ -s shown ] || { echo "$page shows no results"; exit 1; }
while read -r row; do
    grep -q "^$(echo "$row" | sed 's/\[/\\[/g; s/\]/\\]/g; s/  */ */g') .* ok " printed ||
        { echo "$page shows the row $row ... ok, printed was:"; cat printed; exit 1; }
done <shown
