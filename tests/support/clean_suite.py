# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of known sources in noise, and how they are cleaned and judged, for the tests of deconvolution."""

import numpy as np
from astropy.io import fits

from image_oracle import ASEC, Frame, load
from program_suite import VLA, Suite, run

SIZE, CELL = 512, 4.0
FRAME = Frame(SIZE, SIZE, CELL * ASEC, *np.radians(VLA))
NOISE = 0.5
ARRAY = ["-telescope", "vla", "-duration", "10min", "-integration", "30s"]
ONE_BAND = ["-spw", "1.38GHz", "10MHz", "8"]
WIDE_BAND = ["-spw", "1.0GHz", "50MHz", "16"]

# Sources on pixels' centres: x, y, I Q U V in Jy, spectral index.
POINTS = [(256, 256, 1, 0, 0, 0, 0), (301, 270, 0.3, 0, 0, 0, 0), (200, 330, 0.1, 0, 0, 0, 0),
          (150, 180, 0.05, 0, 0, 0, 0), (330, 150, 0.5, 0, 0, 0, 0)]
POLARISED = [(256, 256, 0.3, 0, 0, 0, 0), (310, 290, 0, 1, -1, 0, 0)]
STEEP = [(256, 256, 2, 0, 0, 0, -0.7), (310, 290, 0.5, 0, 0, 0, -0.7)]


def sources(points):
    words = []
    for x, y, *flux, index in points:
        ra, dec = np.degrees(FRAME.sky(x, y))
        words += ["-source", "%.15gdeg" % ra, "%.15gdeg" % dec, *["%.15gJy" % f for f in flux], "%g" % index]
    return words


SETS = {"points": [*ONE_BAND, *sources(POINTS)], "polarised": [*ONE_BAND, *sources(POLARISED)],
        "steep": [*WIDE_BAND, "-reference-frequency", "1.375GHz", *sources(STEEP)]}


def mad(image):
    """The noise of an image, of its median distance from the median."""
    return 1.48260221850560 * np.median(np.abs(image - np.median(image)))


class CleanSuite(Suite):
    def ms(self, name):
        return self.made_at(name + ".ms", VLA, [*ARRAY, "-noise", "%gJy" % NOISE, *SETS[name]])

    def clean(self, ms, *options, size=SIZE):
        """Clean a set; the prefix of the files, and the log."""
        name = self.path("clean%d" % next(self.number))
        done = run(self.msimage, "-j", 2, "-size", size, size, "-scale", "%gasec" % CELL, "-name", name, *options, ms)
        return name, done.stderr.decode()

    def near(self, title, got, want, limit):
        self.must(np.all(np.abs(got - want) <= limit), "%-50s %.6g, wanted %.6g, off by up to %.3g" %
                  (title, got, want, limit))


def thermal(header):
    """The noise of a natural Stokes I image: two hands' mean in every sample."""
    return NOISE / np.sqrt(2 * header["WSCIMGWG"])


def flux_about(model, x, y, radius=3):
    return model[y - radius:y + radius + 1, x - radius:x + radius + 1].sum()


def same_images(s, title, one, other, names):
    equal = [(load(one + n)[0] == load(other + n)[0]).all() for n in names]
    s.must(all(equal), "%s: %d of %d images are the same" % (title, sum(equal), len(names)))


def change_image(path, to, **cards):
    """Write a copy of an image with other cards; pixels by a function called `pixels`."""
    with fits.open(path) as f:
        if "pixels" in cards:
            cards.pop("pixels")(f[0].data[0, 0])
        f[0].header.update(cards)
        f.writeto(to, overwrite=True)
