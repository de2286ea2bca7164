/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/version.h"

#include <elf.h>
#include <link.h>
#include <string.h>

#include "kernels/gridder.h"

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "GCC " __VERSION__
#endif

enum { MAX_ID_TEXT = 41 };

/*
 * Write the build id of the program, the linker's hash of what it linked, in hexadecimal to text [MAX_ID_TEXT].
 * dl_iterate_phdr visits the program first; the result 1 keeps it from going on to the libraries. Without a build id
 * text stays as it is.
 */
static int find_build_id(struct dl_phdr_info *info, size_t size, void *text)
{
    (void)size;
    char *out = text;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_NOTE) continue;
        const char *p = (const char *)(info->dlpi_addr + segment->p_vaddr), *end = p + segment->p_memsz;
        while (p + sizeof(ElfW(Nhdr)) <= end) {
            ElfW(Nhdr) note;
            memcpy(&note, p, sizeof note);
            const char *name = p + sizeof note, *value = name + (note.n_namesz + 3) / 4 * 4;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
                for (unsigned k = 0; k < note.n_descsz && 2 * k + 3 <= MAX_ID_TEXT; k++)
                    snprintf(out + 2 * k, 3, "%02x", (unsigned char)value[k]);
                return 1;
            }
            p = value + (note.n_descsz + 3) / 4 * 4;
        }
    }
    return 1;
}

void msi_version_print(FILE *out)
{
    char build_id[MAX_ID_TEXT] = "unknown";
    dl_iterate_phdr(find_build_id, build_id);
    fputs("msimage " MSIMAGE_VERSION "\n", out);
    fprintf(out, "build: %s, %s, id %.16s\n", MSIMAGE_BUILD_TYPE, COMPILER, build_id);
    fprintf(out, "libraries: %s, %s\n", MSIMAGE_LIBRARIES, msi_backend_versions());
    fprintf(out, "GPU: %s\n", msi_backend_describe());
}
