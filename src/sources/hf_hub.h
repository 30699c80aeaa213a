/* A Hugging Face hub, or a mirror of it, over HTTP (formats-huggingface.md 2 and 3): finds a repository's commit and
 * files. Every call names the commit that was found first. Thread-safe; used by publish/. */
#pragma once

#include "base/ctx.h"
#include "base/reader.h"
#include "sources/hf_listing.h"
#include "sources/hf_url.h"
#include "sources/remote_reader.h"

#define HF_ENDPOINT "https://huggingface.co"

typedef struct {
  const char *endpoint;          /* "https://mirror/hf"; NULL: HF_ENDPOINT */
  const char *token;             /* NULL: anonymous. Goes to the endpoint's scheme, host and port and nowhere else */
  const char *ca_file;           /* NULL: the system's */
  gint64 no_progress_timeout_ms; /* 0: 30 s without a byte */
  gint64 retry_base_ms;          /* 0: 250 */
} HfHubConfig;

typedef struct HfHub HfHub;

/* INVALID_ARGUMENT when the endpoint is no http or https URL or the token cannot be one. */
HfHub *hf_hub_new (const HfHubConfig *config, GError **error);
void hf_hub_free (HfHub *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (HfHub, hf_hub_free)

/* Asks what `url` means now: `url`'s revision is widened until one exists, and the answer's files are the whole tree of
 * the commit with sizes and hashes. Errors say what to do; their reasons: HubNotFound, HubUnauthorized, HubGated,
 * HubForbidden, HubRateLimited, HubTrouble, HubAnswer, HubIncomplete (files that it names are not listed). */
HfInfo *hf_hub_find (Ctx *ctx, HfHub *self, HfUrl *url, GError **error);

/* Random access to a file of the commit; `info`, `file` and `head` may go, the hub must stay. `head` is what
 * hf_hub_head gave for it, or NULL. Opens nothing yet. Content without an LFS hash is loaded whole and verified before
 * its first byte is given out; that of the others is the caller's to verify against `file->sha256`. A reader is for one
 * thread. Errors while reading name the file only where the hub itself refuses it: those above; FAILED_PRECONDITION
 * (reason SourceChanged) when the hub no longer has what it listed, DATA_LOSS (SourceCorrupt) when bytes do not match a
 * hash. */
Reader *hf_hub_open (HfHub *self, const HfInfo *info, const HfFile *file, GBytes *head);
/* The first REMOTE_HEAD_BYTES of a file with an LFS hash; all of another, verified. Blocks; caller frees. */
GBytes *hf_hub_head (Ctx *ctx, HfHub *self, const HfInfo *info, const HfFile *file, GError **error);
