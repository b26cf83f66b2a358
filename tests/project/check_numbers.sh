#!/bin/sh
# check_numbers.sh SRC: numbers with fractions are printed and read by src/base/decimal.c and src/base/json.c, for what
# C's own functions and cJSON's do depends on the locale of the program that embeds the library. Of SRC's other files
# none has a conversion of a double in the statement of a raw printf, none calls a printf that takes a va_list, and none
# reads numbers by strtod, atof, scanf or cJSON.
set -eu
[ -e "$1/base/decimal.c" ] || { echo "$1 is not the folder src"; exit 1; }

find "$1" -name '*.[ch]' -o -name '*.def' | sort | xargs awk '
    function complain(why) { printf "%s:%d: %s\n", FILENAME, FNR, why; bad = 1 }
    FNR == 1 { statement = "" }
    FILENAME ~ /base\/(decimal|json)\.c$/ { next }
    /^ *(\/\*| \*)/ { next }
    /(^|[^A-Za-z_0-9])(vs?n?printf|vfprintf|vprintf)\(/ { complain("vprintf and its like: use decimal_vprint or text.h") }
    /(^|[^A-Za-z_0-9])(strto(d|f|ld)|atof|f?s?w?scanf)\(/ { complain("use decimal_read, or strtol") }
    /(^|[^A-Za-z_0-9])cJSON_(Print|Parse)/ { complain("use json.h") }
    /(^|[^A-Za-z_0-9])(setlocale|localeconv|uselocale|newlocale)\(/ { complain("the locale is the caller'"'"'s") }
    statement != "" || /(^|[^A-Za-z_0-9])(f|s|sn)?printf\(/ {
        statement = statement " " $0
        if ($0 !~ /[;{] *(\/\*.*)?\\? *$/)
            next
        gsub(/\\"|'"'"'"'"'"'/, "", statement)
        gsub(/%%/, "", statement)
        n = split(statement, part, "\"")
        for (i = 2; i <= n; i += 2)
            if (part[i] ~ /%[-+ #0]*[0-9*]*(\.[0-9*]*)?L?[aefgAEFG]/)
                complain("prints a number with the point of the locale: use text.h")
        statement = ""
    }
    END { exit bad }
'
