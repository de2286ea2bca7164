#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# package_install.sh BUILD PYTHON: the package as a wheel has it works from its folder alone; as Debian's it finds the
# installed library.
source "$(dirname "${BASH_SOURCE[0]}")/../support/cli_prologue.sh"
build=$1 python=$2
"$python" -c 'import numpy, cffi' 2>/dev/null || exit 77
unset PYTHONPATH LD_LIBRARY_PATH
image='import msimage, numpy as np
image = msimage.wgridder.vis2dirty(uvw=np.zeros((1, 3)), freq=np.array([1e9]), vis=np.ones((1, 1), "c16"), npix_x=16,
                                   npix_y=16, pixsize_x=1e-3, pixsize_y=1e-3, epsilon=1e-6, backend="cpu")
assert abs(image - 1).max() < 1e-6
print(msimage.__file__)'
cmake --install "$build" --component wheel --prefix "$PWD/wheel" >/dev/null || complain "no wheel"
(cd wheel && "$python" -B -c "$image" >../from) || complain "the wheel's package"
grep -q "$PWD/wheel" from || complain "imported from $(cat from)"
for component in libmsimage python3-msimage; do
    cmake --install "$build" --component "$component" --prefix "$PWD/installed" >/dev/null || complain "no $component"
done
folder=$(dirname "$(find "$PWD/installed" -name 'libmsimage.so.0')")
LD_LIBRARY_PATH=$folder PYTHONPATH=$PWD/installed/lib/python3/dist-packages "$python" -B -c "$image" >/dev/null ||
    complain "Debian's package"
# A wheel for GPUs says what is missing if CUDA's libraries are not there.
for missing in libcudart.so.13 libcufft.so.12; do
    cc -shared -x c /dev/null -Wl,-soname,$missing.none -o none.so
    cc -shared -x c /dev/null -x none -Wl,--no-as-needed none.so -o wheel/msimage/libmsimage.so.0
    (cd wheel && "$python" -B -c 'import msimage') 2>&1 | grep -q "ImportError.*$missing.*pip install 'msimage\[cuda13\]'" ||
        complain "no message names $missing"
done
# The package's version, which pip reads from pyproject.toml, is the library's, and its notices are included.
root=$(dirname "${BASH_SOURCE[0]}")/../..
"$root/packaging/version" >version || complain "versions differ"
grep -q -x 'wheel.license-files = .*"packaging/wheel-notices.txt".*' "$root/pyproject.toml" || complain "wheels have no notices"
! find installed wheel -name '__pycache__' | grep . || complain "compiled files are installed"
exit "$failed"
