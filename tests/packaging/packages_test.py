# SPDX-License-Identifier: GPL-3.0-or-later
"""packages_test.py SOURCE BUILD: checks files, dependencies and policy of the Debian packages that cpack makes of a build tree.

scripts/check-packages tests the packages on a bare system. The library dependencies of programs are not checked here, because
a build with CUDA has some that Debian does not have.
"""
import glob
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = (os.path.abspath(p) for p in sys.argv[1:3])
PACKAGES = ("msimage", "libmsimage0", "libmsimage-dev", "libcasacore-c0", "libcasacore-c-dev", "python3-msimage")
# A build with MPI has one more.
if os.path.exists(BUILD + "/msimage-mp"):
    PACKAGES += ("msimage-mp",)


def output(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def make(folder):
    """Make the packages and unpack each with its control files; return their paths by name."""
    off = [f"-DCPACK_DEBIAN_{c}_PACKAGE_SHLIBDEPS=OFF" for c in ("MSIMAGE", "MSIMAGE-MP", "LIBMSIMAGE", "LIBCASACORE-C", "PYTHON3-MSIMAGE")]
    output("cpack", "--config", BUILD + "/CPackConfig.cmake", "-G", "DEB", "-B", folder + "/made", "-DCPACK_STRIP_FILES=OFF",
           "-DCPACK_DEBIAN_COMPRESSION_TYPE=none", *off, cwd=folder, env=dict(os.environ, SOURCE_DATE_EPOCH="1700000000"))
    made = {}
    for path in glob.glob(folder + "/made/*.deb"):
        name = output("dpkg-deb", "-f", path, "Package").strip()
        made[name] = path
        subprocess.run(["dpkg-deb", "-R", path, os.path.join(folder, name)], check=True)
    return made


def files_of(folder, name, version):
    """Yield the paths of a package without version, build type and library directory, as in files.txt."""
    root = os.path.join(folder, name)
    for at, _, names in os.walk(root):
        for file in names:
            path = os.path.relpath(os.path.join(at, file), root)
            if not path.startswith("DEBIAN/"):
                path = re.sub(r"Config-\w+\.cmake$", "Config-TYPE.cmake", path)
                path = re.sub(r"^usr/lib/[a-z0-9_]+-linux-gnu[a-z0-9]*/", "usr/lib/", path)
                yield path.replace(version, "VERSION")


def check_files(folder, version):
    """Each package has the files that files.txt lists."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "files.txt"), encoding="utf-8") as f:
        listed = sorted(line for line in f.read().splitlines() if line.split(":")[0] in PACKAGES)
    there = sorted(f"{name}: {path}" for name in PACKAGES for path in files_of(folder, name, version))
    more, less = sorted(set(there) - set(listed)), sorted(set(listed) - set(there))
    assert there == listed, "the files of the packages differ from tests/packaging/files.txt:\n" + "\n".join(
        ["+ " + line for line in more] + ["- " + line for line in less])


def check_policy(folder):
    """Manuals and changelogs are compressed without a time; the licence is right; scripts have valid syntax."""
    for name in PACKAGES:
        root = os.path.join(folder, name)
        for path in glob.glob(root + "/usr/share/man/man1/*") + glob.glob(f"{root}/usr/share/doc/{name}/changelog*"):
            with open(path, "rb") as f:
                head = f.read(10)
            assert head[:2] == b"\x1f\x8b" and head[4:8] == bytes(4) and not head[3], path
            assert len(gzip.open(path).read()) > 50, path
        with open(f"{root}/usr/share/doc/{name}/copyright", encoding="utf-8") as f:
            assert "License: GPL-3.0-or-later" in f.read()
        for path in glob.glob(root + "/DEBIAN/p*"):
            subprocess.run(["sh", "-n", path], check=True)
            assert os.access(path, os.X_OK), path
    for name in [name for name in PACKAGES if os.path.isdir(f"{folder}/{name}/usr/bin")]:
        programs = os.listdir(f"{folder}/{name}/usr/bin")
        assert sorted(programs) == sorted(p[:-5] for p in os.listdir(f"{folder}/{name}/usr/share/man/man1")), name


def check_owners(made):
    """All files belong to root and can be written only by root."""
    for path in made.values():
        for line in output("dpkg-deb", "-c", path).splitlines():
            mode, owner = line.split()[:2]
            assert owner == "root/root" and (mode[0] == "l" or mode[5] + mode[8] == "--"), line
            assert mode[1:] in ("rwxr-xr-x", "rw-r--r--", "rwxrwxrwx"), line


def check_control(made, version):
    """Control fields are right, and dependencies between packages are complete."""
    def field(name, which):
        return output("dpkg-deb", "-f", made[name], which).strip()

    exactly = f"(= {version}-1)"
    for name in PACKAGES:
        assert field(name, "Version") == version + "-1" and field(name, "Source") == "msimage", name
        assert re.fullmatch(r"[^<]+ <[^@ ]+@[^@ ]+>", field(name, "Maintainer")), name
        summary, *rest = field(name, "Description").splitlines()
        assert 10 < len(summary) < 80 and not summary.endswith(".") and rest, name
        assert all(len(line) <= 80 for line in rest), name
    for name, wants in (("libmsimage-dev", ("libmsimage0 " + exactly, "libfftw3-dev")),
                        ("libcasacore-c-dev", ("libcasacore-c0 " + exactly, "casacore-dev")),
                        ("python3-msimage", ("libmsimage0 " + exactly, "python3:any", "python3-numpy", "python3-cffi"))):
        assert set(wants) <= set(field(name, "Depends").split(", ")), name
    assert "casacore-data-tai-utc" in field("msimage", "Recommends")
    # The build needs a newer processor than Debian does.
    with open(BUILD + "/CMakeCache.txt", encoding="utf-8") as f:
        wants_cpu = "MSIMAGE_BASE_ARCH:STRING=-march=x86-64-v2\n" in f.read()
    for name in {"msimage", "msimage-mp", "libmsimage0", "libcasacore-c0"}.intersection(PACKAGES):
        assert ("sse4.2-support" in field(name, "Depends").split(", ")) == wants_cpu, name
    if "msimage-mp" in PACKAGES:
        assert "openmpi-bin" in field("msimage-mp", "Depends").split(", ")
        assert "openmpi" not in field("msimage", "Depends")


def check_binaries(folder):
    """Binaries have no library path and no path of the build; listed symbols are the exported ones."""
    for name in PACKAGES:
        for at, _, names in os.walk(os.path.join(folder, name, "usr")):
            for path in (os.path.join(at, n) for n in names if not os.path.islink(os.path.join(at, n))):
                with open(path, "rb") as f:
                    is_elf = f.read(4) == b"\x7fELF"
                if is_elf:
                    dynamic = output("readelf", "-d", path)
                    assert "RPATH" not in dynamic and "RUNPATH" not in dynamic, path
                    assert BUILD not in dynamic, path
    for name, library in (("libmsimage0", "libmsimage.so.0"), ("libcasacore-c0", "libcasacore-c.so.0")):
        (path,) = glob.glob(f"{folder}/{name}/usr/lib/**/{library}", recursive=True)
        exported = {re.sub("@.*", "", line.split()[-1]) for line in output("nm", "-D", "--defined-only", path).splitlines()}
        with open(f"{folder}/{name}/DEBIAN/symbols", encoding="utf-8") as f:
            first, *rest = f.read().splitlines()
        assert first == f"{library} {name} #MINVER#"
        assert {line.split("@")[0].strip() for line in rest if line.startswith(" ")} == exported, name
        with open(f"{folder}/{name}/DEBIAN/shlibs", encoding="utf-8") as f:
            assert f.read().split()[:3] == [library[:-5], "0", name]
        with open(f"{folder}/{name}/DEBIAN/triggers", encoding="utf-8") as f:
            assert f.read() == "activate-noawait ldconfig\n"


def check_paths(folder):
    """Text files do not contain paths of the build."""
    for name in PACKAGES:
        for at, _, names in os.walk(os.path.join(folder, name)):
            for path in (os.path.join(at, n) for n in names if n.endswith((".pc", ".cmake", ".py", ".h"))):
                with open(path, encoding="utf-8") as f:
                    text = f.read()
                assert SOURCE not in text and BUILD not in text, path


def main():
    if not all(shutil.which(tool) for tool in ("cpack", "dpkg-deb", "readelf", "nm", "gzip", "strip")):
        print("skipped: tools of Debian are missing")
        sys.exit(77)
    version = output(SOURCE + "/packaging/version").strip()
    os.umask(0o022)  # as in scripts/release: directories of packages must be readable
    with tempfile.TemporaryDirectory() as folder:
        made = make(folder)
        assert sorted(made) == sorted(PACKAGES), made
        check_files(folder, version)
        check_control(made, version)
        check_owners(made)
        for check in (check_policy, check_binaries, check_paths):
            check(folder)
        print("ok")


if __name__ == "__main__":
    main()
