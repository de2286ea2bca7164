/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A plan's stream in C++ (plan_stream), and fast copies between a device and host memory on it (staged_copy). Both free
 * themselves.
 */
#ifndef MSI_PLAN_STREAM_CUDA_H
#define MSI_PLAN_STREAM_CUDA_H

#include <algorithm>
#include <stdint.h>

#include "core/memory.h"
#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/gpu/host_copy.h"

namespace {

/* A plan_stream wraps a stream: the default stream of device 0 until begin(). Declare it before the buffers that are
 * used on it, so that they are freed first. */
class plan_stream {
  public:
    plan_stream() = default;
    /* Wrap another owner's stream, which must outlive this object. */
    explicit plan_stream(const msi_gpu_stream &other) : on(other) {}
    plan_stream(const plan_stream &) = delete;
    plan_stream &operator=(const plan_stream &) = delete;
    ~plan_stream()
    {
        if (is_own) msi_gpu_stream_free(&on);
    }

    /* begin - make a device the current one; the first call creates the stream. Returns: 0, MSI_EGPU */
    int begin(int device)
    {
        if (on.stream) return msi_gpu_stream_enter(&on);
        is_own = true;
        return msi_gpu_stream_create(&on, device);
    }
    /* enter - make the stream's device the calling thread's current one. Returns: 0, MSI_EGPU */
    int enter() const
    {
        return msi_gpu_stream_enter(&on);
    }
    /* leave - do the same before a plan is freed, where errors can no longer be returned. */
    void leave() const
    {
        if (cudaSetDevice(on.device) != cudaSuccess) cudaGetLastError();
    }
    /* wait - wait until all work on the stream is done. Returns: 0, MSI_EGPU */
    int wait() const
    {
        return msi_gpu_stream_wait(&on);
    }
    cudaStream_t get() const
    {
        return static_cast<cudaStream_t>(on.stream);
    }

    /* upload - begin to copy n elements to the device. Call wait() before the host memory is changed or freed. */
    template <typename T> int upload(T *to, const T *from, int64_t n) const
    {
        MSI_CUDA(cudaMemcpyAsync(to, from, sizeof(T) * (size_t)n, cudaMemcpyHostToDevice, get()));
        return MSI_OK;
    }
    /* download - copy n elements to the host, after all earlier work on the stream. */
    template <typename T> int download(T *to, const T *from, int64_t n) const
    {
        MSI_CUDA(cudaMemcpyAsync(to, from, sizeof(T) * (size_t)n, cudaMemcpyDeviceToHost, get()));
        return wait();
    }
    /* clear - begin to set n elements to zero. */
    template <typename T> int clear(T *p, int64_t n) const
    {
        MSI_CUDA(cudaMemsetAsync(p, 0, sizeof(T) * (size_t)n, get()));
        return MSI_OK;
    }

  private:
    msi_gpu_stream on = {0, nullptr};
    bool is_own = false;
};

/*
 * Copies between a device and any memory. The driver stages large copies from and to ordinary host memory through its
 * own pages with one thread, at a fifth of the bus's speed. Here all threads copy to or from one of several registered
 * buffers while the bus transfers the others. Other copies go to the driver directly.
 *
 * The bus writes at half its speed to lines that are in the cores' caches. Copies to the host are therefore split into
 * small parts that use all of the buffers in turn: if the buffers are larger than the caches, a part has left the
 * caches before its place is used again.
 */

/* A staged_copy copies on a stream. Uploads are complete only after the last flush. */
class staged_copy {
  public:
    /* Given: n_buffer 2 .. MOST_SLOTS. More buffers are faster, but take longer to register at a process's first
     * copy */
    explicit staged_copy(const plan_stream &on_, int n_buffer = 2) : on(on_), n_slot(n_buffer) {}
    staged_copy(const staged_copy &) = delete;
    staged_copy &operator=(const staged_copy &) = delete;
    ~staged_copy()
    {
        for (slot &s : slots) {
            if (s.done && cudaEventSynchronize(s.done) != cudaSuccess) cudaGetLastError();
            if (s.done && cudaEventDestroy(s.done) != cudaSuccess) cudaGetLastError();
            msi_host_slot_release(&s.buffer);
        }
    }

    /*
     * begin - start uploads of this many bytes in all, from the kind of memory that `from` points to. Small ones, and
     * those from device or registered memory, are sent at once and need no buffers. Returns: 0, MSI_ENOMEM, MSI_EGPU
     */
    int begin(int64_t bytes, const void *from)
    {
        /* Drop pieces that a failed upload has left. */
        n_piece = 0;
        filled = 0;
        joined = {};
        is_staged = bytes >= LEAST_STAGED && is_pageable(from);
        return is_staged ? make(slots[at]) : MSI_OK;
    }

    /* is_pageable - return whether this is ordinary, unregistered host memory. */
    static bool is_pageable(const void *at)
    {
        cudaPointerAttributes a;
        if (cudaPointerGetAttributes(&a, at) == cudaSuccess) return a.type == cudaMemoryTypeUnregistered;
        cudaGetLastError();
        return true;
    }

    /*
     * upload - begin to copy n elements, which must not change before flush(). Elements that follow the previous ones
     * on both sides are sent with them. Returns: 0, MSI_EGPU
     */
    template <typename T> int upload(T *to, const T *from, int64_t n)
    {
        const char *next = reinterpret_cast<const char *>(from);
        char *target = reinterpret_cast<char *>(to);
        int64_t left = n * (int64_t)sizeof(T);
        if (!is_staged) return join(target, next, left);
        while (left > 0) {
            if (target != first_target + filled || filled == SLOT_BYTES || n_piece == MOST_PIECES)
                MSI_TRY(start_slot(target));
            const int64_t bytes = std::min({left, SLOT_BYTES - filled, PIECE_BYTES});
            piece[n_piece++] = {slots[at].buffer.memory + filled, next, bytes};
            filled += bytes;
            next += bytes;
            target += bytes;
            left -= bytes;
        }
        return MSI_OK;
    }

    /*
     * push - send the rest. Call it between two allocations, which may be adjacent: a copy must not span both. After it
     * ordinary memory may be changed; other memory only after the stream has been waited for. Returns: 0, MSI_EGPU
     */
    int push()
    {
        MSI_TRY(send());
        return send_joined();
    }

    /* flush - send the rest, and wait until all copies are complete. Returns: 0, MSI_EGPU */
    int flush()
    {
        MSI_TRY(push());
        return on.wait();
    }

    /* download - copy bytes to the host, after all earlier work on the stream. Returns: 0, MSI_ENOMEM, MSI_EGPU */
    int download(void *to, const void *from, int64_t bytes)
    {
        const auto place = [=](int64_t at) { return host_part{static_cast<char *>(to) + at, bytes - at}; };
        return download_to(place, from, bytes);
    }

    /* Host memory for the next bytes: `bytes` contiguous bytes. */
    struct host_part {
        char *at;
        int64_t bytes;
    };

    /*
     * download_to - do the same to memory in several pieces, all of one kind. Given: place(at) returns the host_part of
     * byte `at` and the following ones; `at` rises from call to call. Returns: 0, MSI_ENOMEM, MSI_EGPU
     */
    template <typename PLACE> int download_to(PLACE place, const void *from, int64_t bytes)
    {
        if (bytes < LEAST_STAGED || !is_pageable(place(0).at))
            return download_pieces(place, static_cast<const char *>(from), bytes);
        const int64_t each = SLOT_BYTES / (n_slot / 2), n_part = (bytes + each - 1) / each, first = n_fetched;
        const int ahead = n_slot - 1;
        n_fetched += n_part;
        for (int64_t i = 0; i < n_part + ahead; i++) {
            if (i < n_part) MSI_TRY(fetch(part_of(first + i, i * each, each, bytes), from));
            if (i >= ahead) MSI_TRY(unpack(part_of(first + i - ahead, (i - ahead) * each, each, bytes), place));
        }
        return MSI_OK;
    }

    static constexpr int MOST_SLOTS = 8;

  private:
    static constexpr int64_t SLOT_BYTES = MSI_HOST_SLOT_BYTES, PIECE_BYTES = 64 << 10, LEAST_STAGED = 1 << 20;
    static constexpr int MOST_PIECES = 512;
    struct slot {
        msi_host_slot buffer = {};
        cudaEvent_t done = nullptr; /* the last transfer that uses the memory */
    };
    /* Some bytes on their way to the host, and their place in a slot. */
    struct part {
        slot *by;
        int64_t slot_at, first, bytes;
    };
    const plan_stream &on;
    const int n_slot;
    slot slots[MOST_SLOTS];
    int64_t n_fetched = 0; /* parts */
    msi_host_piece piece[MOST_PIECES];
    int n_piece = 0, at = 0; /* pieces for slot `at` */
    int64_t filled = 0;      /* bytes of these pieces */
    char *first_target = nullptr;
    bool is_staged = false;
    struct {
        char *to;
        const char *from;
        int64_t bytes;
    } joined = {}; /* a direct copy that has not been sent yet */

    int send_joined()
    {
        const auto now = joined;
        joined = {};
        if (now.bytes) MSI_CUDA(cudaMemcpyAsync(now.to, now.from, (size_t)now.bytes, cudaMemcpyDefault, on.get()));
        return MSI_OK;
    }

    /* Extend the direct copy if this one follows it on both sides. */
    int join(char *to, const char *from, int64_t bytes)
    {
        if (to != joined.to + joined.bytes || from != joined.from + joined.bytes) {
            MSI_TRY(send_joined());
            joined = {to, from, 0};
        }
        joined.bytes += bytes;
        return MSI_OK;
    }

    static int make(slot &s)
    {
        if (!s.buffer.memory) MSI_TRY(msi_host_slot_acquire(&s.buffer));
        if (!s.done) MSI_CUDA(cudaEventCreateWithFlags(&s.done, cudaEventDisableTiming));
        return MSI_OK;
    }

    int send()
    {
        if (!n_piece) return MSI_OK;
        slot &s = slots[at];
        MSI_CUDA(cudaEventSynchronize(s.done));
        msi_host_copy(piece, n_piece, 1);
        n_piece = 0;
        at = (at + 1) % n_slot;
        MSI_TRY(on.upload(first_target, static_cast<const char *>(s.buffer.memory), filled));
        first_target = nullptr;
        filled = 0;
        MSI_CUDA(cudaEventRecord(s.done, on.get()));
        return MSI_OK;
    }

    int start_slot(char *target)
    {
        MSI_TRY(send());
        MSI_TRY(make(slots[at]));
        first_target = target;
        filled = 0;
        return MSI_OK;
    }

    template <typename PLACE> int download_pieces(PLACE &place, const char *from, int64_t bytes)
    {
        for (int64_t i = 0; i < bytes;) {
            const host_part to = place(i);
            const int64_t n = std::min(bytes - i, to.bytes);
            MSI_TRY(join(to.at, from + i, n));
            i += n;
        }
        MSI_TRY(send_joined());
        return on.wait();
    }

    /* Find part i, which begins at byte `first` of the copy, and is `each` bytes or the rest. */
    part part_of(int64_t i, int64_t first, int64_t each, int64_t bytes)
    {
        return {&slots[i % n_slot], i / n_slot % (SLOT_BYTES / each) * each, first, std::min(each, bytes - first)};
    }

    int fetch(const part &p, const void *from)
    {
        MSI_TRY(make(*p.by));
        MSI_CUDA(cudaMemcpyAsync(p.by->buffer.memory + p.slot_at, static_cast<const char *>(from) + p.first,
                                 (size_t)p.bytes, cudaMemcpyDeviceToHost, on.get()));
        MSI_CUDA(cudaEventRecord(p.by->done, on.get()));
        return MSI_OK;
    }

    template <typename PLACE> int unpack(const part &p, PLACE &place)
    {
        int n_out = 0;
        MSI_CUDA(cudaEventSynchronize(p.by->done));
        for (int64_t i = 0; i < p.bytes;) {
            const host_part to = place(p.first + i);
            const int64_t some = std::min({p.bytes - i, to.bytes, PIECE_BYTES});
            piece[n_out++] = {to.at, p.by->buffer.memory + p.slot_at + i, some};
            i += some;
            if (n_out < MOST_PIECES && i < p.bytes) continue;
            msi_host_copy(piece, n_out, 0);
            n_out = 0;
        }
        return MSI_OK;
    }
};

} // namespace

#endif
