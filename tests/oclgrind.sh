#!/bin/sh
# oclgrind.sh OCLGRIND LOG PROGRAM [ARGUMENT…]: fails when the program fails or Oclgrind has anything to report.
oclgrind=$1
log=$2
shift 2
rm -f "$log"
"$oclgrind" --data-races --uninitialized --max-errors 20 --log "$log" "$@"
status=$?
if [ -s "$log" ]; then
    head -n 60 "$log"
    exit 1
fi
exit $status
