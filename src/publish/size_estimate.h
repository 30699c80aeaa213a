/* How much room a model will take in a store, told before it is published. Used by `push --dry-run`. */
#pragma once

#include "publish/publish.h"

/* Encodes a few pieces of the weights as the store would and counts the rest as it is: an estimate, of a store that has
 * nothing of the model yet. Reads at most 8 MiB of the files, and their headers again. Blocks. */
gboolean publish_plan_estimate (Ctx *ctx, const PublishPlan *plan, guint64 *out_stored_bytes, GError **error);
