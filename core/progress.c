/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/progress.h"

#include <stddef.h>
#include <unistd.h>

#include "core/log.h"

typedef struct progress {
    const char *stage; /* NULL: none */
    msi_progress_share share;
    int on_terminal;
    double started_s, drawn_s, fraction;
    int last_tenth;
    void (*listener)(void *user, const char *stage, double fraction);
    void *user;
} progress;

static progress program;
static _Thread_local progress own;
static _Thread_local int has_own, is_muted;

/* Return the progress state of the calling thread: its own, or the program's. */
static progress *current(void)
{
    return has_own ? &own : &program;
}

/* Draw the bar or print a line. At the end of a stage, remove the bar. */
static void show_progress(progress *p, double now_s, int is_over)
{
    const double elapsed_s = now_s - p->started_s, f = p->fraction;
    const double left_s = f > 0 ? elapsed_s * (1 - f) / f : -1;
    if (p->on_terminal) {
        if (is_over)
            msi_log_bar_end();
        else if (f == 0 || now_s - p->drawn_s >= 0.1)
            msi_log_bar(p->stage, f, left_s);
        else
            return;
        p->drawn_s = now_s;
        return;
    }
    const int tenth = (int)(f * 10 + 1e-9);
    if (is_over || tenth == 10 || tenth <= p->last_tenth || elapsed_s <= 5) return;
    p->last_tenth = tenth;
    msi_log_info("%s: %d %%, ETA %.0f s", p->stage, tenth * 10, left_s);
}

static void notify_listener(const progress *p)
{
    if (p->listener) p->listener(p->user, p->stage, p->fraction);
}

void msi_progress_begin(const char *stage)
{
    progress *p = current();
    if (is_muted) return;
    p->stage = stage;
    p->share = (msi_progress_share){0, 1};
    p->fraction = 0;
    notify_listener(p);
    if (has_own) return;
    p->on_terminal = !msi_log_is_timed() && isatty(STDERR_FILENO);
    p->started_s = msi_wall_s();
    p->last_tenth = 0;
    show_progress(p, p->started_s, 0);
}

void msi_progress_end(void)
{
    progress *p = current();
    if (is_muted || !p->stage) return;
    p->fraction = 1;
    notify_listener(p);
    if (!has_own) show_progress(p, msi_wall_s(), 1);
    p->stage = NULL;
}

static void advance(progress *p, double fraction)
{
    if (fraction > 1) fraction = 1;
    if (!(fraction > p->fraction)) return;
    p->fraction = fraction;
    notify_listener(p);
    if (!has_own) show_progress(p, msi_wall_s(), 0);
}

void msi_progress_at(int64_t done, int64_t total)
{
    progress *p = current();
    if (is_muted || !p->stage || total <= 0) return;
    advance(p, p->share.begin + (p->share.end - p->share.begin) * (double)done / (double)total);
}

msi_progress_share msi_progress_enter(int64_t first, int64_t end, int64_t total)
{
    progress *p = current();
    const msi_progress_share before = p->share;
    if (is_muted || !p->stage || total <= 0) return before;
    const double length = (before.end - before.begin) / (double)total;
    if (end > total) end = total;
    p->share = (msi_progress_share){before.begin + length * (double)first, before.begin + length * (double)end};
    advance(p, p->share.begin);
    return before;
}

void msi_progress_leave(msi_progress_share before)
{
    progress *p = current();
    if (is_muted || !p->stage) return;
    advance(p, p->share.end);
    p->share = before;
}

void msi_progress_mute(int muted)
{
    is_muted = muted;
}

void msi_progress_listen(void (*listener)(void *user, const char *stage, double fraction), void *user)
{
    program.listener = listener;
    program.user = user;
}

void msi_progress_thread_begin(void (*listener)(void *user, const char *stage, double fraction), void *user)
{
    own = (progress){.listener = listener, .user = user};
    has_own = 1;
}

void msi_progress_thread_end(void)
{
    has_own = 0;
}
