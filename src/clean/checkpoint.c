/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A file is a head; sections, each a head of its own and data; and an end, a section without data whose index is their
 * number. Numbers are the machine's own: a head tells whether they are another's. A section's checksum is of its head
 * and data and goes on from the checksum before it, so that no section can be lost, doubled or moved.
 */
#include "src/clean/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/interrupt.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/fits/publish.h"

static const char MAGIC[8] = "MSICLEAN";
enum { VERSION = 1, ORDER = 0x01020304, END = 0, CHUNK = 1 << 20 };

typedef struct file_head {
    char magic[8];
    uint32_t version, order;
    uint64_t options, sets;
    uint64_t checksum; /* of what is before it */
} file_head;

typedef struct section_head {
    int64_t kind, index, bytes;
    uint64_t checksum; /* of the head up to here and the data, after the one before */
} section_head;

/* ---- Writing ---- */

struct msi_checkpoint_writer {
    msi_publish *publish;
    uint64_t checksum;
    int64_t n_section;
};

/* Return 1 where a file begins as a checkpoint does or there is none, 0 where it is another's. */
static int may_replace(const char *path)
{
    char begin[sizeof MAGIC] = {0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT;
    const ssize_t n = read(fd, begin, sizeof begin);
    close(fd);
    return n == (ssize_t)sizeof begin && memcmp(begin, MAGIC, sizeof MAGIC) == 0;
}

int msi_checkpoint_check_place(const char *path)
{
    if (may_replace(path)) return MSI_OK;
    return msi_error_set(MSI_EOUTPUT, "%s: is no checkpoint of msimage, and is left as it is", path);
}

int msi_checkpoint_begin(msi_checkpoint_writer **out, const char *path, const msi_checkpoint_run *run)
{
    file_head head = {.version = VERSION, .order = ORDER, .options = run->options, .sets = run->sets};
    msi_checkpoint_writer *w;
    int fd;
    *out = NULL;
    MSI_TRY(msi_checkpoint_check_place(path));
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    head.checksum = msi_hash(0, &head, offsetof(file_head, checksum));
    MSI_TRY(msi_alloc(&w, 1, sizeof *w, "a checkpoint"));
    w->checksum = head.checksum;
    int rc = msi_publish_plan(&w->publish, &path, 1, 1);
    if (!rc) rc = msi_publish_begin(w->publish, 0, &fd);
    if (!rc) rc = msi_publish_write(w->publish, 0, &head, sizeof head);
    if (rc)
        msi_checkpoint_discard(w);
    else
        *out = w;
    return rc;
}

static uint64_t section_checksum(uint64_t before, const section_head *head, const void *data)
{
    const uint64_t hash = msi_hash(before, head, offsetof(section_head, checksum));
    uint64_t sum = hash;
    for (int64_t done = 0; done < head->bytes; done += CHUNK)
        sum = msi_hash(sum, (const char *)data + done, head->bytes - done < CHUNK ? head->bytes - done : CHUNK);
    return sum;
}

static int put(msi_checkpoint_writer *w, int64_t kind, int64_t index, const void *data, int64_t bytes)
{
    section_head head = {.kind = kind, .index = index, .bytes = bytes};
    w->checksum = head.checksum = section_checksum(w->checksum, &head, data);
    MSI_TRY(msi_publish_write(w->publish, 0, &head, sizeof head));
    return msi_publish_write(w->publish, 0, data, (size_t)bytes);
}

int msi_checkpoint_put(msi_checkpoint_writer *w, msi_checkpoint_kind kind, int64_t index, const void *data,
                       int64_t bytes)
{
    w->n_section++;
    return put(w, kind, index, data, bytes);
}

int msi_checkpoint_commit(msi_checkpoint_writer *w)
{
    int rc = put(w, END, w->n_section, "", 0);
    if (!rc) rc = msi_publish_seal(w->publish, 0);
    if (!rc) rc = msi_publish_commit(w->publish);
    msi_checkpoint_discard(w);
    return rc;
}

void msi_checkpoint_discard(msi_checkpoint_writer *w)
{
    if (!w) return;
    msi_publish_free(w->publish);
    msi_free(w);
}

int64_t msi_checkpoint_bytes(int64_t n_section, int64_t data_bytes)
{
    return (int64_t)sizeof(file_head) + (n_section + 1) * (int64_t)sizeof(section_head) + data_bytes;
}

int msi_checkpoint_remove(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0 && errno == ENOENT) return MSI_OK;
    if (!may_replace(path) || unlink(path) == 0 || errno == ENOENT) return MSI_OK;
    return msi_error_set(MSI_EOUTPUT, "%s: cannot be removed: %s", path, strerror(errno));
}

/* ---- Reading ---- */

typedef struct section {
    section_head head;
    int64_t offset;  /* of the data */
    uint64_t before; /* the checksum before it */
} section;

struct msi_checkpoint {
    int fd;
    int64_t size; /* of the file */
    section *s;   /* [n_section], room for n_room */
    int64_t n_section, n_room;
    char *path, *chunk;
};

static int damaged(const msi_checkpoint *c, const char *how)
{
    return msi_error_set(MSI_EINPUT, "%s: the checkpoint is damaged: %s", c->path, how);
}

/* Read n bytes at an offset. */
static int read_at(const msi_checkpoint *c, int64_t offset, void *data, int64_t n)
{
    for (int64_t done = 0; done < n;) {
        const ssize_t got = pread(c->fd, (char *)data + done, (size_t)(n - done), offset + done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return msi_error_set(MSI_EINPUT, "%s: cannot be read: %s", c->path, strerror(errno));
        if (got == 0) return damaged(c, "it is truncated");
        done += got;
    }
    return MSI_OK;
}

static int check_head(const msi_checkpoint *c, const msi_checkpoint_run *run, uint64_t *checksum)
{
    file_head head;
    if (c->size < (int64_t)sizeof head) return damaged(c, "it is truncated");
    MSI_TRY(read_at(c, 0, &head, sizeof head));
    if (memcmp(head.magic, MAGIC, sizeof MAGIC) != 0)
        return msi_error_set(MSI_EINPUT, "%s: is no checkpoint of msimage", c->path);
    *checksum = msi_hash(0, &head, offsetof(file_head, checksum));
    if (head.checksum != *checksum) {
        if (head.order != ORDER || head.version != VERSION)
            return msi_error_set(MSI_EINPUT, "%s: the checkpoint is damaged, or of another version or machine",
                                 c->path);
        return damaged(c, "its beginning does not agree with its checksum");
    }
    if (head.order != ORDER || head.version != VERSION)
        return msi_error_set(MSI_EINPUT, "%s: the checkpoint is of another version (%u, not %d) or machine", c->path,
                             (unsigned)head.version, VERSION);
    if (head.options != run->options)
        return msi_error_set(MSI_EINPUT, "%s: the checkpoint is of a run with other options", c->path);
    if (head.sets != run->sets)
        return msi_error_set(MSI_EINPUT, "%s: the checkpoint is of other Measurement Sets, or they have changed",
                             c->path);
    return MSI_OK;
}

/* Read a section's data in chunks, or to `data`, and compare its checksum. */
static int check_section(const msi_checkpoint *c, const section *s, char *data)
{
    uint64_t sum = msi_hash(s->before, &s->head, offsetof(section_head, checksum));
    for (int64_t done = 0; done < s->head.bytes; done += CHUNK) {
        const int64_t n = s->head.bytes - done < CHUNK ? s->head.bytes - done : CHUNK;
        char *to = data ? data + done : c->chunk;
        MSI_TRY(msi_interrupt_check());
        MSI_TRY(read_at(c, s->offset + done, to, n));
        sum = msi_hash(sum, to, n);
    }
    return sum == s->head.checksum ? MSI_OK : damaged(c, "a part does not agree with its checksum");
}

static int keep_section(msi_checkpoint *c, const section *s)
{
    if (c->n_section == c->n_room) {
        MSI_TRY(msi_grow(&c->s, c->n_section, 2 * c->n_room + 16, sizeof *c->s, "a checkpoint"));
        c->n_room = 2 * c->n_room + 16;
    }
    c->s[c->n_section++] = *s;
    return MSI_OK;
}

static int check_sections(msi_checkpoint *c, uint64_t checksum)
{
    for (int64_t offset = sizeof(file_head);;) {
        section s = {.before = checksum};
        if (c->size - offset < (int64_t)sizeof s.head) return damaged(c, "it is truncated");
        MSI_TRY(read_at(c, offset, &s.head, sizeof s.head));
        s.offset = offset + (int64_t)sizeof s.head;
        if (s.head.bytes < 0 || s.head.bytes > c->size - s.offset) return damaged(c, "a part is longer than the file");
        MSI_TRY(check_section(c, &s, NULL));
        checksum = s.head.checksum;
        offset = s.offset + s.head.bytes;
        if (s.head.kind != END) {
            MSI_TRY(keep_section(c, &s));
            continue;
        }
        if (s.head.index != c->n_section || s.head.bytes) return damaged(c, "parts are missing");
        return offset == c->size ? MSI_OK : damaged(c, "there is something behind its end");
    }
}

static int open_file(msi_checkpoint *c, const char *path)
{
    struct stat st;
    const int64_t length = (int64_t)strlen(path) + 1;
    c->fd = -1;
    MSI_TRY(msi_alloc(&c->path, length, 1, "a checkpoint"));
    memcpy(c->path, path, (size_t)length);
    MSI_TRY(msi_alloc(&c->chunk, CHUNK, 1, "a checkpoint"));
    c->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (c->fd < 0 && errno == ENOENT)
        return msi_error_set(MSI_EINPUT, "%s: there is no checkpoint to go on from", path);
    if (c->fd < 0 || fstat(c->fd, &st) != 0)
        return msi_error_set(MSI_EINPUT, "%s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return msi_error_set(MSI_EINPUT, "%s: is no checkpoint of msimage", path);
    c->size = st.st_size;
    return MSI_OK;
}

int msi_checkpoint_open(msi_checkpoint **out, const char *path, const msi_checkpoint_run *run)
{
    msi_checkpoint *c;
    uint64_t checksum = 0;
    *out = NULL;
    MSI_TRY(msi_alloc(&c, 1, sizeof *c, "a checkpoint"));
    int rc = open_file(c, path);
    if (!rc) rc = check_head(c, run, &checksum);
    if (!rc) rc = check_sections(c, checksum);
    if (rc)
        msi_checkpoint_close(c);
    else
        *out = c;
    return rc;
}

static const section *find(const msi_checkpoint *c, msi_checkpoint_kind kind, int64_t index)
{
    for (int64_t i = 0; i < c->n_section; i++)
        if (c->s[i].head.kind == (int64_t)kind && c->s[i].head.index == index) return &c->s[i];
    return NULL;
}

int64_t msi_checkpoint_size(const msi_checkpoint *c, msi_checkpoint_kind kind, int64_t index)
{
    const section *s = find(c, kind, index);
    return s ? s->head.bytes : -1;
}

int msi_checkpoint_get(const msi_checkpoint *c, msi_checkpoint_kind kind, int64_t index, void *data, int64_t bytes)
{
    const section *s = find(c, kind, index);
    if (!s) return damaged(c, "a part is missing");
    if (s->head.bytes != bytes) return damaged(c, "a part has another size");
    return check_section(c, s, data);
}

void msi_checkpoint_close(msi_checkpoint *c)
{
    if (!c) return;
    if (c->fd >= 0) close(c->fd);
    msi_free(c->s);
    msi_free(c->path);
    msi_free(c->chunk);
    msi_free(c);
}
