/* What the hub says of a repository, read from its JSON (formats-huggingface.md 2): the model's card and the files of
 * one commit. Everything is taken for foreign: sizes, names and counts have limits. Pure. */
#pragma once

#include "base/error.h"

#define HF_MAX_FILES 100000u

typedef struct {
  char *path;
  guint64 size_bytes; /* G_MAXUINT64: the hub does not say */
  char *sha256;       /* of the content, 64 hex digits, for LFS and Xet files; else NULL */
  char *blob_id;      /* git's SHA-1 of the content, 40 hex digits, for the others; NULL when not stated */
} HfFile;

typedef struct {
  char *id;           /* the repository's present name */
  char *commit;       /* that the asked revision means now */
  char *task;         /* pipeline tag, or NULL */
  char *license;      /* or NULL */
  char **index_tasks; /* that the card's results are of, NULL-terminated */
  gboolean is_gated, is_private;
  GArray *files; /* HfFile; without sizes and hashes unless they were asked for */
} HfInfo;

/* Of an array of HfFile that owns what it holds. */
GArray *hf_files_new (void);

/* INVALID_ARGUMENT (reason HubAnswer) when the text is not such a document, FileRejected for unsafe file names,
 * RESOURCE_EXHAUSTED for too many files. A commit has 40 hex digits; another hub's (`is_mirror`) may be any token. */
HfInfo *hf_info_parse (GBytes *json, gboolean is_mirror, GError **error);
void hf_info_free (HfInfo *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (HfInfo, hf_info_free)

/* Adds the files of one page of a tree to `files`. Errors as above. */
gboolean hf_tree_parse (GBytes *json, GArray *files, GError **error);

/* Target of rel="next" in a Link header (RFC 8288), as written; caller frees. NULL: there is none, `header` may be NULL. */
char *hf_link_next (const char *header);
