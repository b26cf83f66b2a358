#!/bin/sh
# oclgrind.sh OCLGRIND LOG PROGRAM [ARGUMENT…]: fails when the program fails or Oclgrind has anything to report.
oclgrind=$1
log=$2
shift 2
rm -f "$log"
# Optimised code has the LLVM instruction freeze, which Oclgrind 21.10 does not know.
"$oclgrind" --data-races --uninitialized --max-errors 20 --build-options -cl-opt-disable --log "$log" "$@"
status=$?
if [ -s "$log" ]; then
    head -n 60 "$log"
    exit 1
fi
exit $status
