#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""many_processors.py MSIMAGE MSIMAGE_MAKEMS MANY_PROCESSORS_LIBRARY: casacore starts a thread for each processor to decode
columns that DyscoStMan compresses. A small set of such columns, whose readers and writer have a low memory limit, is imaged,
predicted into and converted on a machine of 200 processors with the same results as on this one."""
import os
import sys

import numpy as np
from astropy.io import fits

from convert_oracle import Rows
from dysco_columns import SET, columns_of, compress
from image_oracle import ASEC
from predict_oracle import Model
from program_suite import VLA, Suite, fresh_copy, main, run

LIBRARY = os.path.abspath(sys.argv.pop(3))
MANY = {**os.environ, "LD_PRELOAD": LIBRARY, "MANY_PROCESSORS": "200"}


class Many(Suite):
    def __init__(self, msimage, makems, folder):
        super().__init__(msimage, makems, folder)
        os.chdir(folder)
        compress(self.made("set.ms", *SET), ["DATA", "WEIGHT_SPECTRUM"])

    def both(self, program, *words, out):
        """The results of a run here and on 200 processors, a pair of values read by out()."""
        made = []
        for environment in (dict(os.environ), MANY):
            run(program, "-quiet", "-overwrite", *words, env=environment)
            made.append(out())
        return made


def check_images(s):
    for readers in (1, 3):
        words = ["-backend", "cpu", "-j", 2, "-readers", readers, "-size", 64, 64, "-scale", "20asec", "-name", "o", "set.ms"]
        s.must(np.array_equal(*s.both(s.msimage, *words, out=lambda: fits.getdata("o-dirty.fits"))), "imaged, %d readers" % readers)


def check_predicted(s):
    Model((64, 64), 20 * ASEC, VLA).write("model")
    made = []
    for environment in (dict(os.environ), MANY):
        run(s.msimage, "-quiet", "-predict", "-backend", "cpu", "-j", 2, "-name", "model", fresh_copy("set.ms", "copy.ms"),
            env=environment)
        made += columns_of("copy.ms", "MODEL_DATA")
    s.must(np.array_equal(*made), "predicted")


def check_converted(s):
    convert = os.path.join(os.path.dirname(s.msimage), "msimage-convert")
    here, there = s.both(convert, "-average-channels", 2, "set.ms", "converted.ms", out=lambda: Rows("converted.ms").data)
    s.must(all(np.array_equal(a, b) for a, b in zip(here, there)), "converted")


if __name__ == "__main__":
    main(Many, globals())
