#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""report_page.py MSIMAGE MSIMAGE_MAKEMS: -report writes a page that stands alone and tells what the log and the files tell.

The page is parsed: its elements are closed, it refers to no other file, its pictures are PNGs, and its numbers are those of the log,
the headers and the pixels. Where Chromium is installed it also lays pages out.
"""
import base64
import html
import html.parser
import json
import os
import re
import shutil
import subprocess

import numpy as np
from astropy.io import fits

from program_suite import VLA, Suite, main, run

VOID = {"meta", "img", "circle", "path", "br"}
SOURCES = ["-source", "60deg", "44deg", "1Jy", "-noise", "0.3Jy", "-flags", "0.1", "-flag-rows", "0.05"]


class Page(html.parser.HTMLParser):
    """The sections, pictures and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.sections, self.section = [], [], {}, ""
        self.pictures, self.alts, self.rows, self.links = [], [], [], []
        self.feed(text)
        self.close()
        self.faults += self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "section":
            self.section = attrs.get("id", "")
            self.sections[self.section] = ""
        if tag == "img":
            kind, _, data = attrs["src"].partition(",")
            self.faults += [] if kind == "data:image/png;base64" else [attrs["src"][:60]]
            self.pictures.append(base64.b64decode(data, validate=True))
            self.alts.append(attrs["alt"])
        self.links += [attrs[key] for key in ("href", "src") if key in attrs and tag != "img"]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append("/" + tag)
        if tag == "section":
            self.section = ""

    def handle_data(self, data):
        if self.section:
            self.sections[self.section] += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def read(name):
    with open(name, encoding="utf-8") as f:
        text = f.read()
    return text, Page(text)


def jansky(text):
    number, unit = text.split()
    return float(number) * {"Jy": 1, "mJy": 1e-3, "µJy": 1e-6, "nJy": 1e-9}[unit.split("/")[0]]


class ReportSuite(Suite):
    def image(self, name, *options, ms=None):
        ms = ms or self.made_at("report.ms", VLA, ["-telescope", "vla", "-duration", "1min", "-integration", "20s", "-spw", "1.4GHz",
                                                   "4MHz", "4", *SOURCES])
        done = run(self.msimage, "-size", 128, 128, "-scale", "4asec", "-report", "-name", self.path(name), *options, ms)
        return done.stderr.decode(), *read(self.path(name) + "-report.html")

    def well_formed(self, title, text, page):
        self.must(not page.faults and not page.links, "%s: the page stands alone and is well formed: %s %s" %
                  (title, page.faults[:3], page.links[:3]))
        self.must(all(png[:8] == b"\x89PNG\r\n\x1a\n" for png in page.pictures) and "http" not in text,
                  "%s: %d pictures are in the page" % (title, len(page.pictures)))

    def dirty(self):
        """The log, text and page of a dirty image, made once."""
        if not hasattr(self, "made_dirty"):
            self.made_dirty = self.image("dirty", "-make-psf", "-weight", "briggs", 0.5)
        return self.made_dirty


def check_dirty(s):
    """A dirty image by -quiet: no other picture is written, and every dropped sample has its reason."""
    log, text, page = s.dirty()
    s.well_formed("dirty", text, page)
    s.must(page.alts[0] == "dirty-dirty.fits" and len(page.pictures) == 3, "its pictures are %s" % page.alts)
    s.must(not [n for n in os.listdir(s.path(".")) if n.startswith("dirty") and n.endswith(".png")],
           "no picture is left next to the page")
    for count, reason in re.findall(r"(\d+) ([a-zA-Z_]+)", re.search(r"dropped: (.*)", log)[1]):
        s.must("%s" % reason in page.sections["samples"] and count in page.sections["samples"],
                  "%s samples dropped by %s are in the page" % (count, reason))
    kept = re.search(r"samples: (\d+) kept", log)[1]
    s.must(kept in page.sections["samples"], "%s samples are imaged" % kept)
    s.must("briggs 0.5" in page.sections["weights"] and "dirty-report" not in text.replace("dirty-report.html", ""),
           "weights are named, and no name of a file that does not exist")
    quiet = run(s.msimage, "-quiet", "-overwrite", "-size", 128, 128, "-scale", "4asec", "-report", "-name",
                s.path("dirty"), s.path("report.ms"))
    s.must(not quiet.stderr and "telescope" in read(s.path("dirty") + "-report.html")[1].sections["data"],
           "-quiet hides the log, not the page")


def check_clean(s):
    """A cleaned image of four channels: convergence, beams, peaks as in the files, the command, warnings, times."""
    name = "<b>&name"
    _, text, page = s.image(name, "-niter", 200, "-auto-threshold", 3, "-channels-out", 4, "-join-channels", "-png",
                               "-no-update-model-required")
    s.well_formed("clean", text, page)
    s.must({"images", "data", "samples", "weights", "cleaning", "files", "times", "command", "log"} <= set(page.sections),
           "its sections are %s" % sorted(page.sections))
    s.must("-auto-threshold 3" in page.sections["command"] and "<b>&" not in text, "the command is there, its letters escaped")
    with open(s.path(name) + "-clean.csv", encoding="ascii") as f:
        last = f.read().split("\n")[-2].split(",")
    row = [row for row in page.rows if row and row[0] == "all"][0]
    s.must(row[1:3] == last[:2] and abs(jansky(row[3]) - float(last[3])) < 1e-3 * abs(float(last[3])),
           "the last cycle is %s" % row)
    rows = {os.path.basename(row[0]): row for row in page.rows if row and row[0].endswith(".fits")}
    for kind in ("image", "residual", "model"):
        file = "%s-0002-%s.fits" % (name, kind)
        pixels = fits.getdata(s.path(file)).astype(float)
        got = [jansky(v) for v in rows[file][3:6]]
        want = [pixels.max(), pixels.min(), np.sqrt(np.mean(pixels**2))]
        # Four digits are printed, of which the last may be off by a half.
        s.must(np.allclose(got, want, rtol=5.1e-4, atol=0), "%s: %s, wanted %s" % (kind, got, want))
    major = fits.getheader(s.path(name + "-MFS-image.fits"))["BMAJ"] * 3600
    s.must(abs(float(rows[name + "-MFS-image.fits"][6].split()[0]) - major) < 1e-3 * major, "the beam is that of the header")
    with open(s.path(name + "-MFS-image.png"), "rb") as f:
        s.must(f.read() in page.pictures, "its pictures are those of -png")
    s.must(sum(float(v) for v in re.findall(r"(\d+\.\d\d) s", page.sections["times"])) > 0, "it has times")


# Run in the page: what its reader meets at a width, as one line of JSON in the title. The box of files may be scrolled sideways.
MEASURE = """
function named(e) { return e.tagName + ' ' + (e.textContent || e.alt || '').trim().slice(0, 40) }
function apart(a, b) { return a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 3 || b.bottom <= a.top + 3 }
window.onload = function () {
  var found = {}
  document.querySelectorAll('details').forEach(function (d) { d.open = true })
  ;[1280, 360].forEach(function (width) {
    document.documentElement.style.width = width + 'px'
    var f = found[width] = {wide: [], small: [], over: [], blank: [], scrolled: [], log: 0}
    document.querySelectorAll('main *').forEach(function (e) {
      var box = e.getBoundingClientRect(), room = (e.closest('section') || document.documentElement).getBoundingClientRect()
      if ((box.right > room.right || box.left < room.left) && !e.closest('.files')) f.wide.push(named(e))
      if (e.children.length == 0 && e.textContent.trim()) {
        if (!(box.height > 0 && box.width > 0)) f.blank.push(named(e))
        if (!e.closest('svg') && parseFloat(getComputedStyle(e).fontSize) < 13) f.small.push(named(e))
      }
      if (e.tagName == 'IMG' && !(e.complete && e.naturalWidth > 300 && box.width > 250)) f.blank.push(e.alt)
    })
    document.querySelectorAll('svg').forEach(function (svg) {
      var room = svg.getBoundingClientRect(), boxes = [].map.call(svg.querySelectorAll('text'), function (e) {
        return [named(e), e.getBoundingClientRect()] })
      boxes.forEach(function (a, i) {
        if (a[1].left < room.left - 1 || a[1].right > room.right + 1) f.over.push(a[0])
        boxes.slice(0, i).forEach(function (b) { if (!apart(a[1], b[1])) f.over.push(a[0] + ' on ' + b[0]) })
      })
    })
    document.querySelectorAll('.files').forEach(function (e) { if (e.scrollWidth > e.clientWidth + 1) f.scrolled.push(named(e)) })
    document.querySelectorAll('#log pre').forEach(function (e) { f.log += e.getBoundingClientRect().height })
  })
  document.title = JSON.stringify(found)
}
"""


def check_browser(s):
    """Chromium lays the pages out, on a screen and as narrow as a telephone: pictures are shown, words are not covered, cut off or
    tiny, nothing sticks out of its box, and the log opens."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        print("Chromium is not installed: the page is not laid out")
        return
    s.dirty()
    s.image("joined", "-niter", 200, "-auto-threshold", 3, "-channels-out", 4, "-join-channels", "-pol", "IQUV",
            "-squared-channel-joining", "-no-update-model-required", "-make-psf")
    for name in ("dirty", "joined"):
        with open(s.path(name) + "-report.html", encoding="utf-8") as f:
            text = f.read()
        with open(s.path("measured.html"), "w", encoding="utf-8") as f:
            f.write(text.replace("</body>", "<script>%s</script></body>" % MEASURE))
        done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,3000", "--user-data-dir=" +
                               s.path("profile"), "--dump-dom", "file://" + s.path("measured.html")], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False, timeout=100, encoding="utf-8")
        title = re.search("<title>(.*?)</title>", done.stdout)
        found = json.loads(html.unescape(title[1])) if title and title[1].startswith("{") else {}
        s.must(set(found) == {"1280", "360"}, "%s: a browser measured the page" % name)
        for width, f in found.items():
            s.must(f["log"] > 100, "%s at %s pixels: the log opens to %.0f pixels" % (name, width, f["log"]))
            for fault in ("wide", "small", "over", "blank", "scrolled"):
                s.must(not f[fault] or (fault == "scrolled" and width == "360"),
                       "%s at %s pixels, %s: %s" % (name, width, fault, f[fault][:6]))


def check_refused(s):
    """An existing page is kept without -overwrite; predicting has no report."""
    s.dirty()
    done = run(s.msimage, "-size", 128, 128, "-scale", "4asec", "-report", "-name", s.path("dirty"), s.path("report.ms"), code=2)
    s.must(b"already exists" in done.stderr, "an existing page is kept")
    done = run(s.msimage, "-predict", "-report", "-name", s.path("dirty"), s.path("report.ms"), code=2)
    s.must(b"-report" in done.stderr, "-predict refuses -report")


main(ReportSuite, globals())
