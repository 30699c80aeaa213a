/* What is stored of a Model and has to be removed with it: the Secret ai-model-cleanup-state-<uid> of the module's namespace
 * (names-and-delivery-contract.md, "Cleanup handle JSON"). It is made before the first worker starts, holds the result of
 * the publication as soon as there is one, and goes last: while it is there, nothing of the model can be forgotten, and a
 * status that was lost can be written again. The collector takes its repository for live. Written by the controller. */
#pragma once

#include "cluster/module_objects.h"
#include "cluster/worker_result.h"

/* The Secret to create. Caller frees, as with all documents below. */
yyjson_mut_doc *cleanup_state_new (const ModelOwner *owner);
/* Merge patches. A result takes the place of an earlier one, and of a mark of damage; `registry` is host[:port]. */
yyjson_mut_doc *cleanup_state_result_patch (const ModelOwner *owner, const char *registry,
                                            const WorkerResult *result);
yyjson_mut_doc *cleanup_state_damage_patch (const char *at);
yyjson_mut_doc *cleanup_state_completion_patch (const char *at);

/* Digest of the published artifact, borrowed; NULL: there is none yet. This and the next two need no more than what
 * cleanup_state_trim leaves. */
const char *cleanup_state_digest (const KubeObject *secret);
gboolean cleanup_state_is_damaged (const KubeObject *secret);
gboolean cleanup_state_is_complete (const KubeObject *secret);
/* The result, from a Secret that was not trimmed. NOT_FOUND when there is none; errors of worker_result_parse. */
gboolean cleanup_state_read_result (const KubeObject *secret, WorkerResult *out_result, GError **error);

/* For caches (KubeTrim): the data goes. */
void cleanup_state_trim (yyjson_mut_val *root);
