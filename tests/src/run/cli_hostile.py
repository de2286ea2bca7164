#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""cli_hostile.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: hostile Measurement Sets are refused. They would have casacore run a library or
a TaQL expression that they bring, read files that do not belong to a table, or go round in circles. The place of such a
part in the set makes no difference. Harmless parts that do not belong to a table are read as usual."""
import os
import shutil
import subprocess

import numpy as np
from astropy.io import fits
from casacore import images
from casacore.tables import makearrcoldesc, makescacoldesc, maketabdesc, msconcat, table

from image_oracle import load, relative_error
from program_suite import Suite, files, fresh_copy, main, run

IMAGE = ["-quiet", "-size", 64, 64, "-scale", "20asec", "-overwrite", "-backend", "cpu"]
SET = ["-telescope", "vla", "-config", "D", "-pol", "XX,YY", "-ra", "60deg", "-dec", "44deg", "-duration", "30s", "-spw", "1GHz",
       "40MHz", "4"]
# Of the same length as the replaced name; casacore would load libra/abcdefghij.so of the working directory.
OWN, BROUGHT = b"StandardStMan", b"ra/abcdefghij"
LIBRARY = """#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void leave_a_mark(void) { close(open("%s", O_CREAT | O_WRONLY, 0666)); }
"""

SWAP = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
static int swapped(const char *name, int flags, int mode, const char *function)
{
    static int n;
    const char *of = getenv("SWAP_FROM"), *own = "%s";
    int (*open_it)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, function);
    struct stat a, b;
    const int is_own = of && !stat(name, &a) && !stat(own, &b) && a.st_ino == b.st_ino;
    return open_it(is_own && ++n >= atoi(of) ? "%s" : name, flags, mode);
}
#define SWAPPED(function) int function(const char *name, int flags, ...) { va_list v; va_start(v, flags); \\
    const int mode = va_arg(v, int); va_end(v); return swapped(name, flags, mode, #function); }
SWAPPED(open)
SWAPPED(open64)
int __open64_2(const char *name, int flags) { return swapped(name, flags, 0, "open64"); }
"""


def patch(path, old, new, last=False):
    """Replace words of a table's header by others of the same length; the last one alone is a manager's name."""
    with open(os.path.join(path, "table.dat"), "rb") as f:
        head = f.read()
    assert old in head and len(old) == len(new)
    at = head.rindex(old) if last else 0
    with open(os.path.join(path, "table.dat"), "wb") as f:
        f.write(head[:at] + head[at:].replace(old, new))


class Hostile(Suite):
    def __init__(self, msimage, makems, folder):
        super().__init__(msimage, makems, folder)
        self.convert_program = os.path.join(os.path.dirname(msimage), "msimage-convert")
        self.mark = self.path("mark")
        os.mkdir(self.path("libra"))
        with open(self.path("mark.c"), "w", encoding="ascii") as f:
            f.write(LIBRARY % self.mark)
        run(os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", self.path("libra/abcdefghij.so"), self.path("mark.c"))

    def good(self):
        return self.made("good.ms", *SET)

    def fresh(self, name="copy.ms"):
        return fresh_copy(self.good(), self.path(name))

    def model(self):
        """The name of model images."""
        if not os.path.exists(self.path("sky-model.fits")):
            run(self.msimage, *IMAGE, "-name", self.path("sky"), self.good())
            with fits.open(self.path("sky-dirty.fits")) as f:
                f[0].header["BUNIT"] = "Jy/pixel"
                f.writeto(self.path("sky-model.fits"))
        return self.path("sky")

    def convert(self, path):
        """Run msimage-convert to another set. Returns the finished process."""
        shutil.rmtree(self.path("converted.ms"), ignore_errors=True)
        done = subprocess.run([self.convert_program, "-quiet", path, "converted.ms"], cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, timeout=120, encoding="utf-8", errors="replace")
        done.stderr = done.stderr.replace("msimage-convert: error:", "msimage: error:")
        return done

    def refused(self, title, path, pattern, ways=("dry", "image", "predict", "convert"), code=3):
        """Is the set refused in these ways, with nothing run and nothing made?"""
        launches = {"dry": lambda: self.launch(*IMAGE, "-dry-run", path, cwd=self.folder),
                    "image": lambda: self.launch(*IMAGE, path, cwd=self.folder),
                    "select": lambda: self.launch(*IMAGE, "-dry-run", "-select-antenna", "!ea01", path, cwd=self.folder),
                    "predict": lambda: self.launch("-quiet", "-predict", "-force", "-name", self.model(), path, cwd=self.folder),
                    "convert": lambda: self.convert(path)}
        for way in ways:
            done = launches[way]()
            self.told("%s, %s" % (title, way), done, code, pattern)
            self.must(not os.path.exists(self.mark), "%s, %s: nothing is run" % (title, way))
            if os.path.exists(self.mark):
                os.remove(self.mark)

    def read(self, title, path, want=None):
        """Is the set imaged as the good one?"""
        done = self.launch(*IMAGE, "-name", "image", path, cwd=self.folder)
        if done.returncode:
            return self.complain("%s: exits %s: %s" % (title, done.returncode, done.stderr))
        run(self.msimage, *IMAGE, "-name", self.path("wanted"), *(want or [self.good()]))
        self.must(relative_error(load(self.path("image-dirty.fits"))[0], load(self.path("wanted-dirty.fits"))[0]) < 1e-12,
                  title + ": the image")
        return self.must(not os.path.exists(self.mark), title + ": nothing is run")


def concatenate(names, path, **options):
    both = table(names, ack=False, **options)
    both.rename(path)
    both.close()


# ---- Storage managers ----

def check_exchanged(s):
    """A set whose header changes between the check and the opening cannot bring a library either. A preloaded library lets
    each process see another header from its Nth opening on."""
    bad, path = s.fresh("bad.ms"), s.fresh("exchanged.ms")
    patch(bad, OWN, BROUGHT)
    with open(s.path("swap.c"), "w", encoding="ascii") as f:
        f.write(SWAP % (os.path.join(path, "table.dat"), os.path.join(bad, "table.dat")))
    run(os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", s.path("swap.so"), s.path("swap.c"), "-ldl")
    codes = []
    for nth in range(2, 8):
        done = subprocess.run([s.msimage, *map(str, IMAGE), "-dry-run", path], cwd=s.folder, stderr=subprocess.PIPE, check=False, timeout=60,
                              env=dict(os.environ, LD_PRELOAD=s.path("swap.so"), SWAP_FROM=str(nth)))
        codes.append(done.returncode)
    s.must(set(codes) <= {0, 3} and 3 in codes and not os.path.exists(s.mark), "codes %s, mark %s" % (codes, os.path.exists(s.mark)))


def check_managers(s):
    """The library of an unknown manager is not loaded, whether columns use it or are only declared to use it."""
    for title, last in (("all of its names", False), ("its last name", True)):
        path = s.fresh()
        patch(path, OWN, BROUGHT, last)
        s.refused(title, path, "copy.ms: .*'ra/abcdefghij'")
    for other in (b"ra.abcdefghij", b"Ra<abcdefghi>", b"StandardStMaN", b"\x00tandardStMan"):
        path = s.fresh()
        patch(path, OWN, other)
        s.refused("another name", path, "copy.ms: .*storage manager .* is not known", ("dry",))


def check_subtables(s):
    """The same for subtables, also for those in other directories and with their own subtables."""
    for name in ("ANTENNA", "FIELD", "SPECTRAL_WINDOW"):
        path = s.fresh()
        patch(os.path.join(path, name), OWN, BROUGHT)
        s.refused(name, path, "copy.ms/%s: .*'ra/abcdefghij'" % name, ("dry", "select", "image", "convert"))
    path = s.fresh()
    fresh_copy(path + "/ANTENNA", s.path("elsewhere"))
    with table(path, readonly=False, ack=False) as t:
        t.putkeyword("ANTENNA", "Table: " + s.path("elsewhere"))
    patch(s.path("elsewhere"), OWN, BROUGHT)
    s.refused("an absolute path", path, "elsewhere: .*'ra/abcdefghij'", ("dry", "convert"))


def check_nested(s):
    """For a copy casacore opens tables to which keywords of a subtable and of its columns refer."""
    for of_column in (False, True):
        path = s.fresh()
        nested = path + "/FIELD/NESTED"
        with table(path + "/FIELD", readonly=False, ack=False) as t:
            table(nested, maketabdesc([makescacoldesc("TIME", 0.0)]), nrow=2, ack=False).close()
            keyword = (t.putcolkeyword, "NAME") if of_column else (t.putkeyword,)
            keyword[0](*keyword[1:], "NESTED", "Table: " + nested)
        done = s.convert(path)
        s.must(done.returncode == 0, "a nested table, converted: %s" % done.stderr)
        patch(nested, OWN, BROUGHT)
        s.refused("a nested table", path, "NESTED: .*'ra/abcdefghij'", ("convert",))
        s.read("a nested table that no image needs", path)


def check_taql(s):
    """Functions of a condition open subtables that are not needed otherwise."""
    path = s.fresh()
    words = [*IMAGE, "-dry-run", "-taql", "mscal.statecol('OBS_MODE') != 'x'"]
    with table(path + "/STATE", readonly=False, ack=False) as t:
        t.addrows(1)
    with table(path, readonly=False, ack=False) as t:
        t.putcol("STATE_ID", np.zeros(t.nrows(), np.int32))
    done = s.launch(*words, path, cwd=s.folder)
    s.must(done.returncode == 0, "TaQL of another table: %s" % done.stderr)
    patch(path + "/STATE", OWN, BROUGHT)
    s.told("TaQL of another table", s.launch(*words, path, cwd=s.folder), 3, "STATE: .*'ra/abcdefghij'")
    s.must(not os.path.exists(s.mark), "TaQL of another table: nothing is run")
    done = s.launch(*IMAGE, "-dry-run", "-taql", "ANTENNA1 >= 0 && abs(UVW[1]) < 1.e9", path, cwd=s.folder)
    s.must(done.returncode == 0 and not os.path.exists(s.mark), "TaQL of this table alone: %s" % done.stderr)


def check_referred(s):
    """Tables that are opened with a set: of a selection, of a concatenation, and where an engine has its columns."""
    one, two = s.fresh("one.ms"), s.fresh("two.ms")
    with table(one, ack=False) as t, t.query("ANTENNA1 >= 0") as chosen:
        chosen.copy(s.path("chosen.ms")).close()
    concatenate([two, one], s.path("multi.ms"))
    concatenate([two, one], s.path("joined.ms"), concatsubtables=["FIELD"])
    msconcat([two, one], s.path("forwarded.ms"))
    for name in ("multi.ms", "joined.ms"):
        s.read(name, s.path(name), [one, two])
    s.read("chosen.ms", s.path("chosen.ms"))
    s.must(s.launch(*IMAGE, "-dry-run", s.path("forwarded.ms")).returncode == 0, "forwarded.ms")
    patch(one, OWN, BROUGHT)
    for name in ("chosen.ms", "multi.ms", "joined.ms", "forwarded.ms"):
        s.refused(name, s.path(name), "one.ms: .*'ra/abcdefghij'")
    fresh_copy(s.good(), one)
    patch(one + "/FIELD", OWN, BROUGHT)
    s.refused("joined.ms", s.path("joined.ms"), "one.ms/FIELD: .*'ra/abcdefghij'")
    fresh_copy(s.good(), one)
    os.remove(one + "/table.f0")
    os.mkfifo(one + "/table.f0")
    for name in ("chosen.ms", "multi.ms", "joined.ms", "forwarded.ms"):
        s.refused(name, s.path(name), "one.ms/table.f0 .not a plain file")


def check_mask(s):
    name = s.model() + "-model.fits"
    mask = s.path("casa.mask")
    images.image(name).saveas(mask)
    words = [*IMAGE, "-niter", 10, "-threshold", 1, "-casa-mask", mask, s.good()]
    done = s.launch(*words, cwd=s.folder)
    s.must(done.returncode == 0, "a mask: %s" % done.stderr)
    with open(mask + "/table.dat", "rb") as f:
        manager = b"TiledCellStMan" if b"TiledCellStMan" in f.read() else b"TiledShapeStMan"
    patch(mask, manager, b"ra/abcdefghij.x"[:len(manager)] if len(manager) == 15 else b"ra/abcdefghij.")
    s.told("a mask", s.launch(*words, cwd=s.folder), 3, "casa.mask: .*'ra/abcdefghij")
    s.must(not os.path.exists(s.mark), "a mask: nothing is run")


def check_engines(s):
    """Columns of computing engines are read: bits of flags, and compressed numbers."""
    path = s.fresh()
    with table(path, readonly=False, ack=False) as t:
        flags = t.getcol("FLAG")
        t.removecols("FLAG")
        t.addcols(maketabdesc(makearrcoldesc("BITS", 0, 2, valuetype="int")))
        t.putcol("BITS", flags.astype(np.int32))
        t.addcols(maketabdesc(makearrcoldesc("FLAG", False, 2)),
                  {"TYPE": "BitFlagsEngine<Int     ", "NAME": "Bits", "SPEC": {"SOURCENAME": "FLAG", "TARGETNAME": "BITS"}})
    s.read("flags of bits", path)


# ---- TaQL ----

def check_expression(s):
    """A column that is an expression could make and remove tables."""
    path, precious = s.fresh(), s.path("precious.ms")
    with table(path, readonly=False, ack=False) as t:
        t.removecols("FLAG_ROW")
        t.addcols(maketabdesc(makescacoldesc("FLAG_ROW", False)),
                  {"TYPE": "VirtualTaQLColumn", "NAME": "Expression",
                   "SPEC": {"TAQLCALCEXPR": "exists(select from [create table '%s' (A I4)])" % precious}})
    fresh_copy(s.good(), precious)
    before = files(precious, ())
    s.refused("an expression", path, "copy.ms: .*VirtualTaQLColumn")
    s.must(files(precious, ()) == before, "the other set is as it was")


# ---- Files ----

def check_links(s):
    """Links that do not lead to a table's file are not read, and their targets are not written; links to tables and of
    tables are used."""
    with open(s.path("plain"), "wb") as f:
        f.write(bytes(1 << 20))
    for target in ("/proc/self/exe", "/proc/kmsg", s.path("plain"), s.path("nowhere"), "/dev/zero"):
        for file in ("table.dat", "table.f0", "ANTENNA/table.f0"):
            path = s.fresh()
            os.remove(os.path.join(path, file))
            os.symlink(target, os.path.join(path, file))
            ways = ("dry", "convert") if "/" in file else ("image", "predict", "convert")
            s.refused("%s to %s" % (file, target), path, file, ways)
    path = s.fresh()
    other = s.fresh("other.ms")
    for file in [f for f in os.listdir(path) if f.startswith("table.f")]:
        os.remove(os.path.join(path, file))
        os.symlink(os.path.join(other, file), os.path.join(path, file))
    s.read("files of another set", path)
    for name in [f for f in os.listdir(path) if os.path.isdir(os.path.join(path, f))]:
        shutil.rmtree(os.path.join(path, name))
        os.symlink("../other.ms/" + name, os.path.join(path, name))
    s.read("subtables of another set", path)
    os.symlink(other, s.path("link.ms"))
    s.read("a set that is a link", s.path("link.ms"))


# ---- Circles ----

def check_circles(s):
    """Tables that refer to themselves, or to each other, cause an error line."""
    with table(s.fresh("abcd.ms"), ack=False) as t, t.query("ANTENNA1 >= 0") as chosen:
        chosen.copy(s.path("efgh.ms")).close()
    fresh_copy(s.path("efgh.ms"), s.path("self.ms"))
    patch(s.path("self.ms"), b"abcd.ms", b"self.ms")
    s.refused("a selection of itself", s.path("self.ms"), "self.ms .refers to itself")
    shutil.rmtree(s.path("abcd.ms"))
    fresh_copy(s.path("efgh.ms"), s.path("abcd.ms"))
    patch(s.path("abcd.ms"), b"abcd.ms", b"efgh.ms")
    s.refused("selections of each other", s.path("abcd.ms"), "abcd.ms .refers to itself")
    fresh_copy(s.good(), s.path("abcd.ms"))
    concatenate([s.path("abcd.ms"), s.good()], s.path("both.ms"))
    patch(s.path("both.ms"), b"abcd.ms", b"both.ms")
    s.refused("a concatenation of itself", s.path("both.ms"), "both.ms .refers to itself")
    path = s.fresh()
    with table(path, ack=False) as t, t.query("ANTENNA1 >= 0", sortlist="ANTENNA2") as chosen:
        chosen.copy(path + "/SORTED_TABLE").close()
    with table(path, readonly=False, ack=False) as t:
        t.putkeyword("SORTED_TABLE", "Table: " + path + "/SORTED_TABLE")
    s.read("a set with a sorted one of itself", path)
    s.must(s.convert(path).returncode == 0, "a set with a sorted one of itself, converted")


main(Hostile, globals())
