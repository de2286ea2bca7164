# SPDX-License-Identifier: GPL-3.0-or-later
# Tests of command lines begin with this: an empty folder to work in, and failures that are reported and remembered.
# shellcheck shell=bash disable=SC2034,SC2164
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
failed=0

complain() {
    echo "FAILED: $*"
    failed=1
}
