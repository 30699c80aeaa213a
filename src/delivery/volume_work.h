/* Who may fill a volume that several processes of several machines write at once, and where: the folder `.work` holds one
 * directory, `<short digest>.<uuid>`, whose name is its holder's own. Who finds the holder dead takes the directory over by
 * renaming it, so of several only one succeeds, and the old holder, should it live after all, finds its paths gone: it can neither
 * publish nor remove anything any more, and what it still writes into open files are verified bytes at their places. Nothing here
 * depends on locks: a lock (flock) only tells a dead holder of this machine at once; any other is dead when the time of its
 * file `alive` stood still for a while. One thread, but for the beat's own. */
#pragma once

#include "base/ctx.h"
#include "base/digest.h"
#include "base/error.h"

#define VOLUME_WORK_FOLDER ".work"

typedef struct VolumeWork VolumeWork;

typedef struct {
  gint64 beat_ms;  /* between two signs of life */
  gint64 stale_ms; /* a holder that gave none for so long is dead */
  gint64 poll_ms;  /* between two looks */
} VolumeTimes;

extern const VolumeTimes volume_times;

/* Takes the work on `volume` (a directory that exists) for one artifact: what an earlier holder of the same artifact left is in the
 * directory, that of others is removed. Waits as long as another holder lives; then `*out_waited` is TRUE. UNAVAILABLE (reason VolumeBusy) when
 * one and the same holder brought no byte for `patience_ms`. */
VolumeWork *volume_work_take (Ctx *ctx, const char *volume, const Digest *artifact, const VolumeTimes *times,
                              gint64 patience_ms, gboolean *out_waited, GError **error);
/* Lets the next one go on with what is there, at once. */
void volume_work_free (VolumeWork *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (VolumeWork, volume_work_free)

/* TRUE when somebody works on the volume, or left something there. */
gboolean volume_work_is_open (const char *volume);

const char *volume_work_path (const VolumeWork *self);
/* Of the work: cancelled also when the work is lost. */
Ctx *volume_work_ctx (VolumeWork *self);
/* TRUE when another took it over. Looks. */
gboolean volume_work_is_lost (VolumeWork *self);
/* It is done: removes the directory. What cannot be removed stays, for the next one to remove. */
void volume_work_finish (VolumeWork *self);
