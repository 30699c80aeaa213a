/* Keys waiting to be worked on: each stands in the queue once however often it was added, and no two workers have the
 * same one at a time; what is added meanwhile comes again afterwards. Used by the controllers. Thread-safe. */
#pragma once

#include "base/ctx.h"

typedef struct WorkQueue WorkQueue;

typedef struct {
  gint64 base_delay_ms; /* of a key's first failure, doubled with each; 0: 100 */
  gint64 max_delay_ms;  /* 0: 5 minutes */
} WorkQueueConfig;

/* `config` may be NULL. */
WorkQueue *work_queue_new (const WorkQueueConfig *config);
void work_queue_free (WorkQueue *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (WorkQueue, work_queue_free)

void work_queue_add (WorkQueue *self, const char *key);
/* Before those that were only added; of these every so manieth gets its turn all the same. */
void work_queue_add_first (WorkQueue *self, const char *key);
/* Of several wishes the earliest counts; work_queue_add is earlier than any. */
void work_queue_add_after (WorkQueue *self, const char *key, gint64 delay_ms);
/* After the key's own delay, which grows with each failure until work_queue_forget. */
void work_queue_add_failed (WorkQueue *self, const char *key);
void work_queue_forget (WorkQueue *self, const char *key);

/* The next key, once there is one; the caller frees it after work_queue_done. NULL when the queue was shut down, at once, or
 * the context ends: within a minute when it is cancelled, so that threads without work do not look for that all the time. */
char *work_queue_get (WorkQueue *self, Ctx *ctx);
void work_queue_done (WorkQueue *self, const char *key);
/* Those who wait or come later get NULL. */
void work_queue_shut_down (WorkQueue *self);
/* Keys that wait for a worker now, without those whose time has not come. */
guint work_queue_length (WorkQueue *self);
