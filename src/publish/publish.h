/* From a source's files to an artifact in a repository: choose, check, move, describe. The manifest is written last,
 * so nothing is visible before all of it is there. Used by `push`, `push --dry-run` and `inspect PATH`. */
#pragma once

#include "domain/model_profile.h"
#include "formats/model_inspector.h"
#include "oci/modelpack.h"
#include "publish/model_source.h"
#include "registry/repository.h"
#include "registry/transfer_events.h"

/* What is going to be published. Immutable once made. */
typedef struct {
  ModelSource *source;
  FileSelection *selection;
  ModelProfile *profile;
  ModelProfile *own_profile; /* without what the source declares: of the files alone, as the artifact is */
  guint64 total_bytes;       /* of the kept files */
  guint n_files;
} PublishPlan;

/* Selects and checks strictly every kept file before a weight byte moves. Takes `source` over, whatever happens; where
 * `wish` (may be NULL) does not say what of it is meant, the source does. Errors: those of the source,
 * file_selection_new, file_selection_refine and the model inspector. */
PublishPlan *publish_plan_new (Ctx *ctx, ModelSource *source, const SelectionWish *wish, GError **error);
void publish_plan_free (PublishPlan *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PublishPlan, publish_plan_free)

typedef struct {
  Digest digest; /* of the manifest */
  guint64 logical_bytes, moved_bytes;
  GHashTable *digests; /* of the kept files: borrowed target of the plan -> Digest */
} PublishResult;
void publish_result_clear (PublishResult *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PublishResult, publish_result_clear)

/* Blocks until the artifact is visible under `tag` (NULL: by digest only). Interrupted, it goes on in a later
 * call where the repository allows. `events` may be NULL. */
gboolean publish_run (Ctx *ctx, const PublishPlan *plan, Repository *repository, const char *tag,
                      const TransferEvents *events, PublishResult *out_result, GError **error);
