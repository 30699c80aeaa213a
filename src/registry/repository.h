/* Port: one repository of OCI artifacts, wherever it lies: the local store (repository_local.h) or any
 * registry over HTTP, ours or foreign (repository_remote.h). Used by publish/, delivery/ and the commands,
 * which never know the difference except in speed. Thread-safe: several blobs may move at once. */
#pragma once

#include "base/ctx.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/reader.h"
#include "storage/recipe.h"

typedef struct Repository Repository;

/* Hears of bytes that are done: `logical` of the blob, of which `moved` really went over the wire or
 * were written. Called from any thread that moves a blob. */
typedef void (*TransferProgress) (guint64 logical_bytes, guint64 moved_bytes, gpointer data);

/* Takes decoded bytes in order. Return FALSE with an error to stop. */
typedef gboolean (*BlobSink) (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error);
/* Takes one decoded, verified chunk that belongs at `offset_bytes`; from several threads at once. */
typedef gboolean (*ChunkSink) (Ctx *ctx, gpointer data, guint64 offset_bytes, const guint8 *bytes, gsize size,
                               GError **error);

/* An implementation embeds Repository as its first member; the functions below tell what each has to do. */
typedef struct {
  gboolean (*blob_exists) (Ctx *ctx, Repository *self, const Digest *digest, guint64 *out_size, GError **error);
  gboolean (*claim_blob) (Ctx *ctx, Repository *self, const Digest *digest, guint64 *out_size, GError **error);
  gboolean (*push_blob) (Ctx *ctx, Repository *self, Reader *content, const Digest *expected, const char *resume_key,
                         TransferProgress progress, gpointer data, Digest *out_digest, GError **error);
  gboolean (*mount_blob) (Ctx *ctx, Repository *self, const Digest *digest, const char *from_repository,
                          gboolean *out_mounted, GError **error);
  gboolean (*read_blob) (Ctx *ctx, Repository *self, const Digest *digest, guint64 offset_bytes, guint64 size_bytes,
                         BlobSink sink, gpointer data, GError **error);
  Recipe *(*get_recipe) (Ctx *ctx, Repository *self, const Digest *digest, GError **error);
  gboolean (*read_chunks) (Ctx *ctx, Repository *self, const Recipe *recipe, const guint8 *wanted, ChunkSink sink,
                           TransferProgress progress, gpointer data, GError **error);
  GBytes *(*get_manifest) (Ctx *ctx, Repository *self, const char *reference, char **out_media_type,
                           Digest *out_digest, GError **error);
  gboolean (*put_manifest) (Ctx *ctx, Repository *self, const char *reference, const char *media_type, GBytes *bytes,
                            Digest *out_digest, GError **error);
  GPtrArray *(*list_tags) (Ctx *ctx, Repository *self, GError **error);
  GPtrArray *(*list_referrers) (Ctx *ctx, Repository *self, const Digest *subject, GError **error);
  gboolean (*remove_manifest) (Ctx *ctx, Repository *self, const char *reference, GError **error);
  void (*free) (Repository *self); /* everything, `self` included, but name and display */
} RepositoryClass;

struct Repository {
  const RepositoryClass *klass;
  char *name;    /* "team/model" */
  char *display; /* "registry.example/team/model", or the bare name of the local store; never credentials */
  gboolean is_local;
};

/* `out_size` may be NULL. FALSE with NOT_FOUND (reason BLOB_UNKNOWN) when the repository lacks it. */
gboolean repository_blob_exists (Ctx *ctx, Repository *self, const Digest *digest, guint64 *out_size, GError **error);
/* The same for somebody who is going to name the blob in a manifest: until then no collection takes it. */
gboolean repository_claim_blob (Ctx *ctx, Repository *self, const Digest *digest, guint64 *out_size, GError **error);
/* Moves a blob in; skips what is there, and whole as far as the other side tells (a local store rereads it).
 * `expected` may be NULL: then the digest is only known at the end
 * (`out_digest`, may be NULL). Interrupted pushes of the same `resume_key` (may be NULL) go on where they
 * stopped, in a later process too, when the other side still has the session. `content` is read by one
 * thread at a time. INVALID_ARGUMENT (reason DIGEST_INVALID) when the content is not what `expected` says. */
gboolean repository_push_blob (Ctx *ctx, Repository *self, Reader *content, const Digest *expected,
                               const char *resume_key, TransferProgress progress, gpointer data, Digest *out_digest,
                               GError **error);
/* Takes a blob over from another repository of the same place without moving bytes, when it can. */
gboolean repository_mount_blob (Ctx *ctx, Repository *self, const Digest *digest, const char *from_repository,
                                gboolean *out_mounted, GError **error);
/* Streams [offset, offset + size) of a blob; `size_bytes` G_MAXUINT64: to the end. Exactly that many bytes or
 * an error; what the digest of the whole is, the caller checks. Resumes by itself after a broken connection. */
gboolean repository_read_blob (Ctx *ctx, Repository *self, const Digest *digest, guint64 offset_bytes,
                               guint64 size_bytes, BlobSink sink, gpointer data, GError **error);
/* The blob's recipe, or NULL without an error where chunks are not offered (foreign registry, small blob). */
Recipe *repository_get_recipe (Ctx *ctx, Repository *self, const Digest *digest, GError **error);
/* Fetches, decodes and verifies the chunks whose byte in `wanted` (one for each of the recipe) is not 0, in
 * parallel, in any order. Each chunk comes to the sink exactly once. */
gboolean repository_read_chunks (Ctx *ctx, Repository *self, const Recipe *recipe, const guint8 *wanted,
                                 ChunkSink sink, TransferProgress progress, gpointer data, GError **error);
/* Manifest or index by tag or digest text, at most 4 MiB, its digest verified against a digest reference and
 * against Docker-Content-Digest. `out_media_type` (caller frees) and `out_digest` may be NULL.
 * NOT_FOUND (reason MANIFEST_UNKNOWN) names the object and where it was looked for. */
GBytes *repository_get_manifest (Ctx *ctx, Repository *self, const char *reference, char **out_media_type,
                                 Digest *out_digest, GError **error);
/* `reference` NULL: by digest only. A manifest with a subject is then among the subject's referrers, also where the
 * registry does not see to that itself. */
gboolean repository_put_manifest (Ctx *ctx, Repository *self, const char *reference, const char *media_type,
                                  GBytes *bytes, Digest *out_digest, GError **error);
GPtrArray *repository_list_tags (Ctx *ctx, Repository *self, GError **error); /* char *, byte order */
#define REPOSITORY_MAX_REFERRERS 10000u
/* Digests of the manifests whose subject this is, in no order (Digest, g_free); RESOURCE_EXHAUSTED when there are more
 * than REPOSITORY_MAX_REFERRERS. One that is named may be gone. */
GPtrArray *repository_list_referrers (Ctx *ctx, Repository *self, const Digest *subject, GError **error);
/* A tag is untagged; a digest removes the manifest and its tags, and its entry among its subject's referrers. */
gboolean repository_remove_manifest (Ctx *ctx, Repository *self, const char *reference, GError **error);
void repository_free (Repository *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Repository, repository_free)
