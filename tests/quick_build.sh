#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# quick_build.sh SOURCE: `scripts/build quick` builds the programs of a first image, for this machine's GPU or for the CPU;
# `scripts/build test` builds everything, for this machine's GPU or sm_90; `scripts/build` builds everything for all GPUs.
set -euo pipefail
# shellcheck source=tests/support/cli_prologue.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/cli_prologue.sh"
mkdir -p tree/scripts bin
cp "$1/scripts/build" tree/scripts
cmake=$(command -v cmake)
# Stand-ins: cmake writes its arguments to the file called; nvidia-smi prints the file capability.
printf '#!/bin/sh\necho "$@" >>"%s/called"\n' "$PWD" >bin/cmake
printf '#!/bin/sh\n[ -s "%s/capability" ] && cat "%s/capability"\n' "$PWD" "$PWD" >bin/nvidia-smi
printf '#!/bin/sh\nprintf "compute_80\\ncompute_90\\n--Ofast-compile\\n"\n' >bin/nvcc
chmod +x bin/*
printf 'include(%s/scripts/cmake/MsimageCuda.cmake)\nmsimage_native_architecture(of)\nmessage("of ${of}.")\n' "$1" >native.cmake

# expect WANTED UNWANTED ARGUMENTS..: patterns that the arguments of cmake must and must not match when scripts/build gets these.
expect() {
    local wanted=$1 unwanted=$2
    shift 2
    rm -f called
    PATH=$PWD/bin:$PATH tree/scripts/build "$@" >/dev/null || complain "scripts/build $* fails"
    grep -q -E -- "$wanted" called || complain "scripts/build $*: /$wanted/ is not in: $(cat called)"
    ! grep -q -E -- "$unwanted" called || complain "scripts/build $*: /$unwanted/ is in: $(cat called)"
}

programs='--build --preset quick .*--target msimage msimage-png msimage-mosaic msimage-makems msimage-peak$'
: >capability
expect '--preset quick .*MSIMAGE_CUDA=OFF' ARCHITECTURES quick
expect "$programs" '--preset release' quick
expect '--preset test .*CMAKE_CUDA_ARCHITECTURES=90-virtual .*CMAKE_CUDA_FLAGS=--Ofast-compile=max( |$)' 'MSIMAGE_CUDA|quick|target' test
expect '--preset release' Ofast release
echo 9.0 >capability
expect 'MSIMAGE_CUDA=AUTO -D CMAKE_CUDA_ARCHITECTURES=90-real( |$)' OFF quick
expect "$programs" '--preset release' quick
printf '9.0\n8.0\n' >capability
expect 'CMAKE_CUDA_ARCHITECTURES=80-real( |$)' OFF quick
expect '--preset test .*CMAKE_CUDA_ARCHITECTURES=80-real( |$)' 'MSIMAGE_CUDA|quick|target|Ofast' test
echo 12.0 >capability
expect 'CMAKE_CUDA_ARCHITECTURES=90-virtual( |$)' OFF quick
echo 7.0 >capability
expect 'MSIMAGE_CUDA=OFF' ARCHITECTURES quick
expect '--build --preset release --parallel [0-9]+$' 'CUDA|quick|target'
! tree/scripts/build other 2>/dev/null || complain "scripts/build other succeeds"

# is_for WANTED: MSIMAGE_CUDA=NATIVE builds for this architecture; of several GPUs for the oldest.
is_for() {
    PATH=$PWD/bin:$PATH "$cmake" -D CMAKE_CUDA_COMPILER="$PWD/bin/nvcc" -P native.cmake 2>&1 | grep -qx "of $1." ||
        complain "a GPU of $(xargs <capability): not built for '$1'"
}
: >capability
is_for ''
echo 9.0 >capability
is_for 90-real
printf '9.0\n8.0\n' >capability
is_for 80-real
echo 12.0 >capability
is_for 90-virtual
echo 7.0 >capability
is_for ''
exit $failed
