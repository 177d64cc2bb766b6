#!/bin/sh
# Compares the skill in the folder $SKILL with its current version, and fails if it
# is worse. WHETSTONE_SERVER and WHETSTONE_API_KEY name the server and a key with
# the permissions read and write.
#
#   SKILL                 folder of the skill; the current one by default
#   SUITES                names or ids of suites, separated by spaces; those of the
#                         entry's gate policy by default
#   GATE_REPORT           file for the report in Markdown; gate.md by default
#   GATE_ON_INCONCLUSIVE  pass (default) or fail
set -eu

set -- gate "${SKILL:-.}" --against current
for suite in ${SUITES:-}; do
    set -- "$@" --suite "$suite"
done

report=${GATE_REPORT:-gate.md}
code=0
whetstone "$@" >"$report" || code=$?
cat "$report"
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    cat "$report" >>"$GITHUB_STEP_SUMMARY"
fi
if [ "$code" -eq 3 ] && [ "${GATE_ON_INCONCLUSIVE:-pass}" = pass ]; then
    code=0
fi
exit "$code"
