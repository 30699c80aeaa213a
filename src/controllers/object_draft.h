/* Documents of objects to create, piece by piece: what those of publication workers and of materializers have in common. Pure;
 * a draft belongs to one thread. Texts are copied; a NULL text adds nothing. */
#pragma once

#include "base/error.h"
#include "base/json.h"

typedef struct {
  yyjson_mut_doc *doc; /* the caller's to free */
  yyjson_mut_val *root, *metadata;
} ObjectDraft;

ObjectDraft object_draft_new (const char *name);

void draft_text (const ObjectDraft *self, yyjson_mut_val *object, const char *name, const char *value);
yyjson_mut_val *draft_object (const ObjectDraft *self, yyjson_mut_val *object, const char *name);
/* A Secret's value. */
void draft_data (const ObjectDraft *self, const char *key, const char *text);
/* metadata.ownerReferences: one that is not the controller and blocks nothing. */
void draft_owner (const ObjectDraft *self, const char *api_version, const char *kind, const char *name,
                  const char *uid);

/* Lists of words: a container's "args". */
void draft_word (const ObjectDraft *self, yyjson_mut_val *list, const char *word);
/* An option with its value. */
void draft_option (const ObjectDraft *self, yyjson_mut_val *list, const char *name, const char *value);
void draft_option_u64 (const ObjectDraft *self, yyjson_mut_val *list, const char *name, guint64 value);

/* What is not the program's own of the only container of a Pod: no privileges ("restricted" of the Pod security standards), a
 * root file system nobody writes to, no variables for services. */
yyjson_mut_val *draft_container (const ObjectDraft *self, yyjson_mut_val *pod_spec, const char *name,
                                 const char *image);
/* Both NAME=QUANTITY,... */
void draft_resources (const ObjectDraft *self, yyjson_mut_val *container, const char *requests, const char *limits);
/* FALSE unless `text` is NAME=QUANTITY,...: INVALID_ARGUMENT. */
gboolean draft_resources_check (const char *text, GError **error);
void draft_pull_secret (const ObjectDraft *self, yyjson_mut_val *pod_spec, const char *secret);

/* "volumes" of a Pod and "volumeMounts" of its container. */
typedef struct {
  const ObjectDraft *draft;
  yyjson_mut_val *volumes, *mounts;
} DraftVolumes;

DraftVolumes draft_volumes (const ObjectDraft *self, yyjson_mut_val *pod_spec, yyjson_mut_val *container);
typedef enum { DRAFT_SECRET, DRAFT_CONFIG_MAP, DRAFT_EMPTY_DIR, DRAFT_CLAIM } DraftVolumeKind;
/* A volume and where it is mounted; Secrets and ConfigMaps read-only. `source` NULL: nothing, but for an empty folder. */
void draft_volume (const DraftVolumes *self, const char *name, DraftVolumeKind kind, const char *source,
                   const char *path);
