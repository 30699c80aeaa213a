/* What the parts of the remote Repository share. Private to registry/. */
#pragma once

#include "registry/push_notes.h"
#include "registry/registry_client.h"
#include "registry/repository.h"
#include "registry/retry.h"

typedef struct {
  Repository base;
  RegistryClient *client;
  guint n_parallel;
  gint64 retry_base_ms;
  char *resume_dir; /* or NULL: what the notes below may borrow */
  PushNotes notes_in_dir;
  const PushNotes *notes; /* or NULL */
} Remote;

/* Progress of one blob that is sent more than once where the connection broke: its logical bytes are told once. */
typedef struct {
  TransferProgress report; /* or NULL */
  gpointer data;
  guint64 told_bytes; /* logical bytes told so far: the furthest position reached */
} RemoteProgress;

/* The blob is done up to `position_bytes`; `moved_bytes` went over the wire for the last piece. */
void remote_progress (RemoteProgress *self, guint64 position_bytes, guint64 moved_bytes);

gboolean remote_blob_exists (Ctx *ctx, Repository *self, const Digest *digest, guint64 *out_size, GError **error);
/* The same with "it is not there" as an answer. */
gboolean remote_has_blob (Ctx *ctx, Remote *self, const Digest *digest, gboolean *out_has, GError **error);
gboolean remote_push_blob (Ctx *ctx, Repository *self, Reader *content, const Digest *expected,
                           const char *resume_key, TransferProgress report, gpointer data, Digest *out_digest,
                           GError **error);
gboolean remote_read_blob (Ctx *ctx, Repository *self, const Digest *digest, guint64 offset_bytes, guint64 size_bytes,
                           BlobSink sink, gpointer data, GError **error);
GPtrArray *remote_list_tags (Ctx *ctx, Repository *self, GError **error);
GPtrArray *remote_list_referrers (Ctx *ctx, Repository *self, const Digest *subject, GError **error);
Recipe *remote_get_recipe (Ctx *ctx, Repository *self, const Digest *digest, GError **error);
gboolean remote_read_chunks (Ctx *ctx, Repository *self, const Recipe *recipe, const guint8 *wanted, ChunkSink sink,
                             TransferProgress progress, gpointer data, GError **error);

/* Adds what a page of a list holds to `items`. */
typedef gboolean (*TakePage) (Remote *self, const HttpReply *reply, GPtrArray *items, GError **error);
/* Reads pages from `url` on until one names no next, or itself. FAILED_PRECONDITION when they lead to another host. */
gboolean remote_read_pages (Ctx *ctx, Remote *self, const char *url, TakePage take, GPtrArray *items, GError **error);
/* After a manifest was put to a registry that did not say it knows its subject: enters it into the index under the
 * subject's fallback tag. Nothing to do when it has none. */
gboolean remote_tell_referrer (Ctx *ctx, Remote *self, GBytes *bytes, const char *media_type, const Digest *digest,
                               GError **error);

/* What a manifest refers to, if anything; one that is not there or is damaged refers to nothing. */
gboolean remote_find_subject (Ctx *ctx, Remote *self, const char *selector, gboolean *out_has, Digest *out_subject,
                              GError **error);
/* After a referrer was removed: strikes it out of the index under the subject's fallback tag, if there is one. */
gboolean remote_forget_referrer (Ctx *ctx, Remote *self, const Digest *subject, const Digest *digest, GError **error);

/* Starts an upload session: its address, absolute, caller frees. `out_min_piece_bytes` (may be NULL): the least a
 * PATCH but the last must have, 0 when the registry does not say. */
char *remote_start_upload (Ctx *ctx, Remote *self, guint64 *out_min_piece_bytes, GError **error);
/* Tells the registry to forget a session; never fails, and does not wait long. */
void remote_cancel_upload (Ctx *ctx, Remote *self, const char *location);
/* FALSE with DATA_LOSS (reason DIGEST_INVALID) when the registry says that it stored something else. */
gboolean remote_check_stored (Remote *self, const HttpReply *reply, const Digest *digest, GError **error);
/* PUT <location>?digest= without a body. TRUE also when a lost answer hid that the blob is complete. */
gboolean remote_close_upload (Ctx *ctx, Remote *self, const char *location, const Digest *digest, GError **error);
/* The newest Location of an answer replaces `*location`; an answer without one leaves it. */
gboolean remote_follow_location (const HttpReply *reply, const char *request_url, char **location, GError **error);

/* Bytes that the session holds. NOT_FOUND (reason BLOB_UPLOAD_UNKNOWN) when the registry has forgotten it. */
gboolean remote_upload_offset (Ctx *ctx, Remote *self, char **location, guint64 *out_offset, GError **error);

/* Of an error: the registry, or something before it, does not let frames through. */
#define REMOTE_WIRE_REFUSED "WireRefused"
/* Pushes over the chunk wire. UNIMPLEMENTED (reason REMOTE_WIRE_REFUSED): the content may go as a plain body. `location` is an open session (taken over) that may hold bytes already, from an
 * earlier process, when `is_resumed`. `note` (or NULL) is its name among the notes. */
gboolean remote_push_frames (Ctx *ctx, Remote *self, Reader *content, const Digest *expected, char *location,
                             gboolean is_resumed, const char *note, RemoteProgress *progress, Digest *out_digest,
                             GError **error);
