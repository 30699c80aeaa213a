/* What a transfer of an artifact's files tells while it goes on, so that a command can show progress; publish/ and
 * delivery/ tell it. Called from several threads at once; each member may be NULL. A second plan starts the count over. */
#pragma once

#include <glib.h>

typedef struct {
  void (*plan) (guint64 total_bytes, guint n_files, gpointer data);
  void (*file) (const char *path, gpointer data); /* work on it begins */
  void (*file_done) (const char *path, gpointer data);
  /* Bytes that are done, of which `moved` came over the wire or were written. */
  void (*bytes) (guint64 done_bytes, guint64 moved_bytes, gpointer data);
  gpointer data;
} TransferEvents;

static inline void
transfer_plan (const TransferEvents *self, guint64 total_bytes, guint n_files)
{
  if (self != NULL && self->plan != NULL)
    self->plan (total_bytes, n_files, self->data);
}

static inline void
transfer_file (const TransferEvents *self, const char *path)
{
  if (self != NULL && self->file != NULL)
    self->file (path, self->data);
}

static inline void
transfer_file_done (const TransferEvents *self, const char *path)
{
  if (self != NULL && self->file_done != NULL)
    self->file_done (path, self->data);
}

static inline void
transfer_bytes (const TransferEvents *self, guint64 done_bytes, guint64 moved_bytes)
{
  if (self != NULL && self->bytes != NULL)
    self->bytes (done_bytes, moved_bytes, self->data);
}
