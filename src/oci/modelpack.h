/* CNCF ModelPack artifacts (formats-oci-modelpack.md 1, 2): a manifest whose layers are the files of a
 * model. Building is strict and depends on its inputs alone, so the same files with the same facts give the
 * same manifest digest anywhere; reading is lenient. Used by publish/, delivery/, cli/ and dmcr's views.
 * Values; not thread-safe while they are filled. */
#pragma once

#include "oci/manifest.h"

typedef enum {
  MODELPACK_WEIGHT_CONFIG, /* in the order of layers (modctl's) */
  MODELPACK_WEIGHT,
  MODELPACK_CODE,
  MODELPACK_DOC,
  MODELPACK_DATASET,
  MODELPACK_OTHER, /* of another type than ModelPack's; reading only */
} ModelpackKind;

typedef enum { MODELPACK_RAW, MODELPACK_TAR, MODELPACK_TAR_GZIP, MODELPACK_TAR_ZSTD } ModelpackCodec;

/* "weight.config", "weight", "code", "doc", "dataset", "other". */
const char *modelpack_kind_name (ModelpackKind kind);
/* By the file's name. `out_guessed` (may be NULL): no rule named it, so weight.config was assumed. */
ModelpackKind modelpack_kind_of_path (const char *path, gboolean *out_guessed);

/* What is known of a model. Everything may be NULL, 0 or empty and is then left out. To keep digests the same
 * everywhere, put in only what follows from the model itself: no time, no place, no user. */
typedef struct {
  /* descriptor */
  char *name, *family, *title, *description, *vendor, *version, *revision, *doc_url, *source_url;
  char *created_at;                              /* reading only; never written */
  GPtrArray *authors, *licenses, *datasets_urls; /* char * */
  /* config */
  char *architecture, *format, *param_size, *precision, *quantization;
  GPtrArray *input_types, *output_types, *languages; /* char * */
  char *knowledge_cutoff;
  gboolean reasoning, tool_usage, reward;
  /* modelfs */
  GPtrArray *diff_ids; /* reading only; as the text says */
} ModelpackFacts;

void modelpack_facts_clear (ModelpackFacts *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ModelpackFacts, modelpack_facts_clear)

typedef struct {
  const char *path; /* relative, slash-separated */
  Digest digest;
  guint64 size_bytes;
} ModelpackFile;

/* Config and manifest of a model of raw layers, one a file, in any order of `files`. File metadata is written in
 * one fixed form (mode 0644, owner 0, time 0) because real times and owners would change the digest.
 * Of precision, modalities and languages only values the schema lists are written; an unlisted precision
 * moves to an empty `quantization`. User info and query are cut off URLs.
 * INVALID_ARGUMENT (reason PathInvalid) for a bad path or none at all; RESOURCE_EXHAUSTED (reason
 * TooManyFiles) when the manifest would be too large. */
gboolean modelpack_build (const ModelpackFile *files, gsize n_files, const ModelpackFacts *facts, GBytes **out_config,
                          GBytes **out_manifest, GError **error);

/* One layer of an artifact that is to be unpacked. */
typedef struct {
  char *path; /* raw: the file. tar: what its entries are named after (they carry it themselves and are
                 extracted at the root); NULL when the layer does not say */
  const Descriptor *descriptor; /* the manifest's */
  ModelpackKind kind;
  ModelpackCodec codec;
} ModelpackLayer;

typedef enum {
  MODELPACK_FORM_CNCF,
  MODELPACK_FORM_LEGACY, /* cnai types */
  MODELPACK_FORM_DOCKER, /* Docker Model Runner's own types */
  MODELPACK_FORM_FILES,  /* files with titles, as ORAS pushes them */
} ModelpackForm;

typedef struct {
  ModelpackForm form;
  GArray *layers; /* ModelpackLayer, in the manifest's order, at least one */
} Modelpack;

void modelpack_free (Modelpack *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Modelpack, modelpack_free)

/* The files of an image manifest, which must outlive the answer. Takes CNCF and legacy layers (raw, tar,
 * tar+gzip, tar+zstd), Docker Model Runner's, and any layer with a title. Unknown model types and untitled
 * layers are passed over. A file's own mode, owner and time are never taken: files are 0644.
 * INVALID_ARGUMENT: reason ManifestInvalid for a layer without a path or an index, PathInvalid for unsafe or
 * clashing paths, NotAModel when nothing is left (the message lists what there is). */
Modelpack *modelpack_read (const Manifest *manifest, GError **error);
/* Folder that holds the weights: the longest common parent of all weight and weight.config paths; "" is the
 * root. Caller frees. */
char *modelpack_model_dir (const Modelpack *self);
/* The facts of a config blob, whatever of it can be understood. INVALID_ARGUMENT (reason ManifestInvalid)
 * only when it is no JSON object. `out_facts` must be cleared by the caller. */
gboolean modelpack_read_config (GBytes *bytes, ModelpackFacts *out_facts, GError **error);
/* The one entry of an index that is a model: by artifactType, else the only one there is.
 * FAILED_PRECONDITION (reason Ambiguous) lists the choices. */
const Descriptor *modelpack_choose (const Manifest *index, GError **error);
